using System;
using System.IO;
using System.Net.Http;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using Microsoft.Azure.Cosmos;

/// <summary>How the program connects, from its environment variables.</summary>
public static class Connection
{
    public static readonly string Endpoint = Variable("PERSEID_ENDPOINT", "http://127.0.0.1:8081/");

    public static readonly string Key = Variable(
        "PERSEID_KEY",
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==");

    /// <summary>A client; dispose of it at the end of the program, not after each call.</summary>
    public static CosmosClient Open(bool bulk = false)
    {
        var options = new CosmosClientOptions
        {
            ConnectionMode = ConnectionMode.Gateway,
            AllowBulkExecution = bulk,
            HttpClientFactory = () => new HttpClient(Handler()),
        };
        return new CosmosClient(Endpoint, Key, options);
    }

    /// <summary>A client that has a resource token of a user in place of the key.</summary>
    public static CosmosClient OpenWithToken(string token)
    {
        var options = new CosmosClientOptions
        {
            ConnectionMode = ConnectionMode.Gateway,
            HttpClientFactory = () => new HttpClient(Handler()),
        };
        return new CosmosClient(Endpoint, token, options);
    }

    /// <summary>Which certificates the client accepts: those of the system, one file, or all.</summary>
    public static HttpClientHandler Handler()
    {
        var handler = new HttpClientHandler();
        string file = Variable("PERSEID_CERT", "");
        if (Variable("PERSEID_INSECURE", "0") == "1")
        {
            handler.ServerCertificateCustomValidationCallback =
                HttpClientHandler.DangerousAcceptAnyServerCertificateValidator;
        }
        else if (file != "")
        {
            handler.ServerCertificateCustomValidationCallback = TrustOnly(file);
        }
        return handler;
    }

    private static Func<HttpRequestMessage, X509Certificate2, X509Chain, SslPolicyErrors, bool> TrustOnly(string file)
    {
        X509Certificate2 trusted = X509Certificate2.CreateFromPem(File.ReadAllText(file));
        return (request, certificate, chain, errors) =>
        {
            if (errors == SslPolicyErrors.None)
            {
                return true;
            }
            chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
            chain.ChainPolicy.CustomTrustStore.Add(trusted);
            chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
            bool isForThisHost = (errors & SslPolicyErrors.RemoteCertificateNameMismatch) == 0;
            return isForThisHost && chain.Build(certificate);
        };
    }

    private static string Variable(string name, string otherwise)
    {
        string value = Environment.GetEnvironmentVariable(name);
        return string.IsNullOrEmpty(value) ? otherwise : value;
    }
}
