using Newtonsoft.Json;

/// <summary>An item with a time to live, as the documentation of time to live has it.</summary>
public sealed class SalesOrder
{
    [JsonProperty(PropertyName = "id")]
    public string Id { get; set; }

    [JsonProperty(PropertyName = "customerId")]
    public string CustomerId { get; set; }

    [JsonProperty(PropertyName = "total")]
    public int Total { get; set; }

    // Without a value the property is left out, and the default of the collection counts.
    [JsonProperty(PropertyName = "ttl", NullValueHandling = NullValueHandling.Ignore)]
    public int? TimeToLive { get; set; }
}
