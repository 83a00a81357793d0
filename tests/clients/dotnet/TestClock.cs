using System;
using System.Globalization;
using System.Net.Http;
using System.Security.Cryptography;
using System.Text;
using System.Threading.Tasks;

/// <summary>The clock of a server with --test-clock, moved through the admin API.</summary>
public static class TestClock
{
    private static readonly HttpClient Http = new HttpClient(Connection.Handler());

    public static Task Advance(int seconds) => Post("advance", $"{{\"seconds\": {seconds}}}");

    public static Task Freeze() => Post("freeze", "{}");

    public static Task Resume() => Post("resume", "{}");

    private static async Task Post(string action, string content)
    {
        string path = "_perseid/clock/" + action;
        string date = DateTime.UtcNow.ToString("r", CultureInfo.InvariantCulture);
        using (var request = new HttpRequestMessage(HttpMethod.Post, new Uri(new Uri(Connection.Endpoint), path)))
        {
            request.Headers.Add("x-ms-date", date);
            request.Headers.Add("x-ms-version", "2020-07-15");
            request.Headers.TryAddWithoutValidation("authorization", Sign("post", "_perseid", path, date));
            request.Content = new StringContent(content, Encoding.UTF8, "application/json");
            using (HttpResponseMessage response = await Http.SendAsync(request))
            {
                string body = await response.Content.ReadAsStringAsync();
                Expect.True(response.IsSuccessStatusCode, "clock: " + body);
            }
        }
    }

    private static string Sign(string verb, string kind, string link, string date)
    {
        string text = $"{verb}\n{kind}\n{link}\n{date.ToLowerInvariant()}\n\n";
        using (var hash = new HMACSHA256(Convert.FromBase64String(Connection.Key)))
        {
            string signature = Convert.ToBase64String(hash.ComputeHash(Encoding.UTF8.GetBytes(text)));
            return Uri.EscapeDataString($"type=master&ver=1.0&sig={signature}");
        }
    }
}
