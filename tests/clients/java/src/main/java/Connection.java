import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;

/** How the program connects. */
final class Connection {
    static final String ENDPOINT = System.getenv("PERSEID_ENDPOINT");
    static final String KEY = System.getenv("PERSEID_KEY");

    private Connection() {
    }

    static CosmosClient open() {
        return new CosmosClientBuilder()
            .endpoint(ENDPOINT)
            .key(KEY)
            .gatewayMode()
            .contentResponseOnWriteEnabled(true)
            .buildClient();
    }

    /** For clients with other credentials than the key. */
    static CosmosClientBuilder builder() {
        return new CosmosClientBuilder().endpoint(ENDPOINT).gatewayMode();
    }

    /** Makes this JVM trust the certificate, before the first connection. */
    static void trust(String certificate) throws Exception {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        try (InputStream file = Files.newInputStream(Path.of(certificate))) {
            trusted.setCertificateEntry("perseid", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        Path store = Files.createTempFile("perseid", ".p12");
        store.toFile().deleteOnExit();
        try (OutputStream out = Files.newOutputStream(store)) {
            trusted.store(out, "perseid".toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", store.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", "perseid");
    }
}
