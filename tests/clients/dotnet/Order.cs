using Newtonsoft.Json;

/// <summary>The item of the checks. A `ttl` of null is not sent: the container's default applies.</summary>
public sealed class Order
{
    [JsonProperty("id")]
    public string Id { get; set; }

    [JsonProperty("customer")]
    public string Customer { get; set; }

    [JsonProperty("total")]
    public double Total { get; set; }

    [JsonProperty("status", NullValueHandling = NullValueHandling.Ignore)]
    public string Status { get; set; }

    [JsonProperty("ttl", NullValueHandling = NullValueHandling.Ignore)]
    public int? TimeToLive { get; set; }

    [JsonProperty("_ts", NullValueHandling = NullValueHandling.Ignore)]
    public long? Timestamp { get; set; }
}
