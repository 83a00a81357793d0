using System;
using System.Globalization;
using System.Net.Http;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using System.Threading.Tasks;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;

/// <summary>The server that the environment names, and its clock.</summary>
public static class Connection
{
    public static readonly Uri Endpoint = new Uri(Variable("PERSEID_ENDPOINT"));
    public static readonly string Key = Variable("PERSEID_KEY");
    private static readonly HttpClient Http = new HttpClient();

    /// <summary>Queries without a partition key are parsed by a library of the client that exists for Windows only.</summary>
    public static bool HasNativeLibrary => RuntimeInformation.IsOSPlatform(OSPlatform.Windows);

    public static ConnectionPolicy Policy => new ConnectionPolicy
    {
        ConnectionMode = ConnectionMode.Gateway,
        ConnectionProtocol = Protocol.Https,
        EnableEndpointDiscovery = false,
    };

    public static DocumentClient Open() => new DocumentClient(Endpoint, Key, Policy, ConsistencyLevel.Session);

    /// <summary>Moves the clock of a server with --test-clock.</summary>
    public static async Task Advance(int seconds)
    {
        const string Path = "_perseid/clock/advance";
        string date = DateTime.UtcNow.ToString("r", CultureInfo.InvariantCulture);
        using (var request = new HttpRequestMessage(HttpMethod.Post, new Uri(Endpoint, Path)))
        {
            request.Headers.Add("x-ms-date", date);
            request.Headers.TryAddWithoutValidation("authorization", Sign("post", "_perseid", Path, date));
            request.Content = new StringContent($"{{\"seconds\": {seconds}}}", Encoding.UTF8, "application/json");
            using (HttpResponseMessage response = await Http.SendAsync(request))
            {
                Expect.True(response.IsSuccessStatusCode, "clock: " + await response.Content.ReadAsStringAsync());
            }
        }
    }

    private static string Variable(string name)
    {
        return Environment.GetEnvironmentVariable(name) ?? throw new InvalidOperationException(name + " is not set.");
    }

    private static string Sign(string verb, string kind, string link, string date)
    {
        string text = $"{verb}\n{kind}\n{link}\n{date.ToLowerInvariant()}\n\n";
        using (var hash = new HMACSHA256(Convert.FromBase64String(Key)))
        {
            string signature = Convert.ToBase64String(hash.ComputeHash(Encoding.UTF8.GetBytes(text)));
            return Uri.EscapeDataString($"type=master&ver=1.0&sig={signature}");
        }
    }
}
