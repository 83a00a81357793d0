import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.Locale;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** The clock of a server with --test-clock, moved through the admin API. */
final class TestClock {
    private static final DateTimeFormatter DATE = DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.US);
    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private TestClock() {
    }

    static void advance(int seconds) throws Exception {
        post("advance", "{\"seconds\": " + seconds + "}");
    }

    static void freeze() throws Exception {
        post("freeze", "{}");
    }

    static void resume() throws Exception {
        post("resume", "{}");
    }

    private static void post(String action, String body) throws Exception {
        String path = "_perseid/clock/" + action;
        String date = DATE.format(ZonedDateTime.now(ZoneOffset.UTC));
        HttpRequest request = HttpRequest.newBuilder(URI.create(Connection.ENDPOINT).resolve("/" + path))
            .header("x-ms-date", date)
            .header("x-ms-version", "2020-07-15")
            .header("authorization", sign("post\n_perseid\n" + path + "\n" + date.toLowerCase(Locale.ROOT) + "\n\n"))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        Checks.isTrue(response.statusCode() < 300, "clock: " + response.statusCode() + " " + response.body());
    }

    private static String sign(String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(Connection.KEY), "HmacSHA256"));
        String signature = Base64.getEncoder().encodeToString(mac.doFinal(text.getBytes(StandardCharsets.UTF_8)));
        return URLEncoder.encode("type=master&ver=1.0&sig=" + signature, StandardCharsets.UTF_8);
    }
}
