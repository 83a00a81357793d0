import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonInclude;

/** An item of the checks. */
@JsonIgnoreProperties(ignoreUnknown = true)
public class Order {
    public String id;
    public String customer;
    public int total;
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public Integer ttl;

    public Order() {
    }

    Order(String id, String customer, int total) {
        this.id = id;
        this.customer = customer;
        this.total = total;
    }

    Order withTtl(Integer seconds) {
        ttl = seconds;
        return this;
    }
}
