// Checks a server with the official Go client. Needs a server with --test-clock.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

var (
	ctx      = context.Background()
	ada      = azcosmos.NewPartitionKeyString("ada")
	database *azcosmos.DatabaseClient
	passed   int
	failed   int
)

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Total    int    `json:"total"`
	TTL      *int32 `json:"ttl,omitempty"`
}

// broken is what a check panics with when something does not hold.
type broken string

func main() {
	client := must(connect())
	id := fmt.Sprintf("go-%d-%d", os.Getpid(), time.Now().UnixNano())
	check("create a database", func() {
		must(client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: id}, nil))
	})
	database = must(client.NewDatabase(id))
	for _, group := range []func(){items, lifetimes, batches, queries, feeds, throughput} {
		group()
	}
	check("delete the database", func() { must(database.Delete(ctx, nil)) })
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func check(name string, run func()) {
	defer func() {
		if problem := recover(); problem != nil {
			failed++
			fmt.Printf("FAILED  %s: %.1500v\n", name, problem)
			return
		}
		passed++
		fmt.Println("ok      " + name)
	}()
	run()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(broken(err.Error()))
	}
	return value
}

func same(expected, actual any, what string) {
	if left, right := fmt.Sprint(expected), fmt.Sprint(actual); left != right {
		panic(broken(what + ": expected " + left + ", got " + right))
	}
}

func refused[T any](status int, _ T, err error) {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		panic(broken(fmt.Sprintf("expected %d, got %v", status, err)))
	}
	same(status, response.StatusCode, "status")
}

func body(value order) []byte {
	return must(json.Marshal(value))
}

func parsed(text []byte) (value order) {
	must(0, json.Unmarshal(text, &value))
	return value
}

func create(name string, defaultTTL *int32, throughput int32) *azcosmos.ContainerClient {
	properties := azcosmos.ContainerProperties{
		ID:                     name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/customer"}, Version: 2},
		DefaultTimeToLive:      defaultTTL,
	}
	amount := azcosmos.NewManualThroughputProperties(throughput)
	must(database.CreateContainer(ctx, properties, &azcosmos.CreateContainerOptions{ThroughputProperties: &amount}))
	return must(database.NewContainer(name))
}

func items() {
	check("items: create, read, replace, upsert, patch, delete", func() {
		orders := create("items", nil, 400)
		same(201, must(orders.CreateItem(ctx, ada, body(order{"é€😀", "ada", 1, nil}), nil)).RawResponse.StatusCode, "create")
		value := parsed(must(orders.ReadItem(ctx, ada, "é€😀", nil)).Value)
		value.Total = 2
		must(orders.ReplaceItem(ctx, ada, value.ID, body(value), nil))
		value.Total = 3
		same(200, must(orders.UpsertItem(ctx, ada, body(value), nil)).RawResponse.StatusCode, "upsert")
		patch := azcosmos.PatchOperations{}
		patch.AppendIncrement("/total", 4)
		must(orders.PatchItem(ctx, ada, value.ID, patch, nil))
		same(7, parsed(must(orders.ReadItem(ctx, ada, value.ID, nil)).Value).Total, "total")
		must(orders.DeleteItem(ctx, ada, value.ID, nil))
		gone(orders, value.ID)
	})
	check("items: etags and conflicts", func() {
		orders := create("etags", nil, 400)
		text := body(order{"a", "ada", 1, nil})
		etag := must(orders.CreateItem(ctx, ada, text, nil)).ETag
		options := &azcosmos.ItemOptions{IfMatchEtag: &etag}
		must(orders.ReplaceItem(ctx, ada, "a", text, options))
		response, err := orders.ReplaceItem(ctx, ada, "a", text, options)
		refused(412, response, err)
		response, err = orders.CreateItem(ctx, ada, text, nil)
		refused(409, response, err)
	})
	check("items: read many", func() {
		orders := create("many", nil, 24000)
		identities := []azcosmos.ItemIdentity{}
		for _, value := range fill(orders, 0, 12) {
			identities = append(identities, azcosmos.ItemIdentity{ID: value.ID, PartitionKey: azcosmos.NewPartitionKeyString(value.Customer)})
		}
		same(12, len(must(orders.ReadManyItems(ctx, identities, nil)).Items), "items")
	})
}

func gone(orders *azcosmos.ContainerClient, id string) {
	response, err := orders.ReadItem(ctx, ada, id, nil)
	refused(404, response, err)
}

func put(orders *azcosmos.ContainerClient, id string, ttl *int32) {
	must(orders.UpsertItem(ctx, ada, body(order{id, "ada", 10, ttl}), nil))
}

func live(orders *azcosmos.ContainerClient) string {
	ids := []string{}
	for _, id := range "abc" {
		if _, err := orders.ReadItem(ctx, ada, string(id), nil); err == nil {
			ids = append(ids, string(id))
		}
	}
	return strings.Join(ids, "")
}

func setDefault(orders *azcosmos.ContainerClient, ttl *int32) {
	properties := must(orders.Read(ctx, nil)).ContainerProperties
	properties.DefaultTimeToLive = ttl
	must(orders.Replace(ctx, *properties, nil))
}

func lifetimes() {
	check("ttl: off, -1 and a number on a container", func() {
		for number, ttl := range []*int32{nil, to.Ptr(int32(-1)), to.Ptr(int32(10))} {
			orders := create(fmt.Sprint("default", number), ttl, 400)
			read := must(orders.Read(ctx, nil)).ContainerProperties.DefaultTimeToLive
			same(string(must(json.Marshal(ttl))), string(must(json.Marshal(read))), "default")
		}
	})
	check("ttl: the nine combinations", combinations)
	check("ttl: an item's own value overrides the default", func() {
		orders := create("override", to.Ptr(int32(60)), 400)
		put(orders, "short", to.Ptr(int32(30)))
		put(orders, "never", to.Ptr(int32(-1)))
		put(orders, "default", nil)
		advance(30)
		gone(orders, "short")
		must(orders.ReadItem(ctx, ada, "default", nil))
		advance(30)
		gone(orders, "default")
		must(orders.ReadItem(ctx, ada, "never", nil))
	})
	check("ttl: a write extends the lifetime, without the property it is removed", func() {
		orders := create("extend", to.Ptr(int32(-1)), 400)
		put(orders, "extended", to.Ptr(int32(60)))
		put(orders, "removed", to.Ptr(int32(60)))
		advance(40)
		put(orders, "extended", to.Ptr(int32(1800)))
		put(orders, "removed", nil)
		advance(1799 - 10)
		must(orders.ReadItem(ctx, ada, "extended", nil))
		advance(20)
		gone(orders, "extended")
		must(orders.ReadItem(ctx, ada, "removed", nil))
	})
	check("ttl: change and disable it on the container", func() {
		orders := create("disable", nil, 400)
		put(orders, "a", nil)
		put(orders, "b", to.Ptr(int32(30)))
		setDefault(orders, to.Ptr(int32(600)))
		advance(30)
		setDefault(orders, nil)
		same(true, must(orders.Read(ctx, nil)).ContainerProperties.DefaultTimeToLive == nil, "off")
		advance(3600)
		same("a", live(orders), "items")
	})
	check("ttl: invalid values are refused", func() {
		orders := create("invalid", to.Ptr(int32(-1)), 400)
		for _, ttl := range []int32{0, -2} {
			response, err := orders.CreateItem(ctx, ada, body(order{"a", "ada", 1, &ttl}), nil)
			refused(400, response, err)
		}
	})
}

func combinations() {
	// The items that exist after 0, 9, 10, 19 and 20 seconds; a has no ttl, b -1, c 20.
	expected := [][]string{
		{"abc", "abc", "abc", "abc", "abc"},
		{"abc", "abc", "abc", "abc", "ab"},
		{"abc", "abc", "bc", "bc", "b"},
	}
	containers := []*azcosmos.ContainerClient{}
	for number, ttl := range []*int32{nil, to.Ptr(int32(-1)), to.Ptr(int32(10))} {
		containers = append(containers, create(fmt.Sprint("nine", number), ttl, 400))
	}
	moveClock("freeze", "{}")
	defer moveClock("resume", "{}")
	for _, orders := range containers {
		put(orders, "a", nil)
		put(orders, "b", to.Ptr(int32(-1)))
		put(orders, "c", to.Ptr(int32(20)))
	}
	for step, seconds := range []int{0, 9, 1, 9, 1} {
		if seconds > 0 {
			advance(seconds)
		}
		for row, orders := range containers {
			same(expected[row][step], live(orders), fmt.Sprintf("row %d, step %d", row, step))
		}
	}
}

func batches() {
	check("batch: all operations", func() {
		orders := create("batch", nil, 400)
		put(orders, "old", nil)
		batch := orders.NewTransactionalBatch(ada)
		batch.CreateItem(body(order{"new", "ada", 1, nil}), nil)
		batch.UpsertItem(body(order{"other", "ada", 1, nil}), nil)
		batch.ReplaceItem("old", body(order{"old", "ada", 2, nil}), nil)
		patch := azcosmos.PatchOperations{}
		patch.AppendIncrement("/total", 5)
		batch.PatchItem("old", patch, nil)
		batch.ReadItem("old", nil)
		batch.DeleteItem("other", nil)
		response := must(orders.ExecuteTransactionalBatch(ctx, batch, nil))
		same("[201 201 200 200 200 204]", statuses(response), "statuses")
		same(7, parsed(response.OperationResults[4].ResourceBody).Total, "total")
	})
	check("batch: one fails, none is done", func() {
		orders := create("none", nil, 400)
		put(orders, "old", nil)
		batch := orders.NewTransactionalBatch(ada)
		batch.CreateItem(body(order{"new", "ada", 1, nil}), nil)
		batch.CreateItem(body(order{"old", "ada", 1, nil}), nil)
		response := must(orders.ExecuteTransactionalBatch(ctx, batch, nil))
		same(false, response.Success, "success")
		same("[424 409]", statuses(response), "statuses")
		gone(orders, "new")
	})
}

func statuses(response azcosmos.TransactionalBatchResponse) []int32 {
	found := []int32{}
	for _, result := range response.OperationResults {
		found = append(found, result.StatusCode)
	}
	return found
}

func fill(orders *azcosmos.ContainerClient, from, count int) (written []order) {
	for number := from; number < from+count; number++ {
		value := order{fmt.Sprint("o", number), fmt.Sprint("customer", number%12), number, nil}
		must(orders.UpsertItem(ctx, azcosmos.NewPartitionKeyString(value.Customer), body(value), nil))
		written = append(written, value)
	}
	return written
}

func query(orders *azcosmos.ContainerClient, text string, key azcosmos.PartitionKey, parameters ...azcosmos.QueryParameter) []string {
	options := &azcosmos.QueryOptions{PageSizeHint: 7, QueryParameters: parameters}
	rows := []string{}
	for pager := orders.NewQueryItemsPager(text, key, options); pager.More(); {
		page := must(pager.NextPage(ctx))
		same(true, len(page.Items) <= 7, "size of the page")
		for _, row := range page.Items {
			rows = append(rows, string(row))
		}
	}
	return rows
}

func queries() {
	for name, amount := range map[string]int32{"one range": 400, "several ranges": 24000} {
		check("query: pages over "+name, func() {
			orders := create(fmt.Sprint("queries", amount), nil, amount)
			fill(orders, 0, 60)
			rows := query(orders, "SELECT VALUE c.id FROM c", azcosmos.NewPartitionKey())
			slices.Sort(rows)
			same(60, len(slices.Compact(rows)), "rows")
			few := query(orders, "SELECT VALUE c.id FROM c WHERE c.total >= @least", azcosmos.NewPartitionKey(),
				azcosmos.QueryParameter{Name: "@least", Value: 57})
			same(3, len(few), "rows")
		})
		check("query: one partition key over "+name, func() {
			orders := must(database.NewContainer(fmt.Sprint("queries", amount)))
			key := azcosmos.NewPartitionKeyString("customer3")
			same("[51 39 27 15 3]", query(orders, "SELECT VALUE c.total FROM c ORDER BY c.total DESC", key), "rows")
			same("[5]", query(orders, "SELECT VALUE COUNT(1) FROM c", key), "COUNT")
		})
	}
}

// changes reads one range until nothing is new.
func changes(orders *azcosmos.ContainerClient, part azcosmos.FeedRange, token *string) ([]string, *string) {
	ids := []string{}
	for range 100 {
		options := &azcosmos.ChangeFeedOptions{FeedRange: &part, Continuation: token, MaxItemCount: 5}
		page := must(orders.ReadChangeFeed(ctx, options))
		if page.ContinuationToken != "" {
			token = &page.ContinuationToken
		}
		if len(page.Items) == 0 {
			return ids, token
		}
		for _, text := range page.Items {
			ids = append(ids, parsed(text).ID)
		}
	}
	panic(broken("the feed does not end"))
}

func feeds() {
	for name, amount := range map[string]int32{"one range": 400, "several ranges": 24000} {
		check("change feed: each range, then what follows, over "+name, func() {
			orders := create(fmt.Sprint("feed", amount), nil, amount)
			fill(orders, 0, 24)
			ranges := must(orders.ReadFeedRanges(ctx, nil))
			same(amount/6000+min(1, 6000/amount), len(ranges), "ranges")
			first, next := []string{}, []string{}
			tokens := make([]*string, len(ranges))
			for number, part := range ranges {
				ids, token := changes(orders, part, nil)
				first, tokens[number] = append(first, ids...), token
			}
			slices.Sort(first)
			same(24, len(first), "changes")
			same(24, len(slices.Compact(first)), "ids")
			fill(orders, 3, 2)
			for number, part := range ranges {
				ids, _ := changes(orders, part, tokens[number])
				next = append(next, ids...)
			}
			slices.Sort(next)
			same("[o3 o4]", next, "changes")
		})
	}
}

func throughput() {
	check("throughput: read and replace", func() {
		orders := create("manual", nil, 400)
		amount, _ := must(orders.ReadThroughput(ctx, nil)).ThroughputProperties.ManualThroughput()
		same(400, amount, "throughput")
		must(orders.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(800), nil))
		amount, _ = must(orders.ReadThroughput(ctx, nil)).ThroughputProperties.ManualThroughput()
		same(800, amount, "throughput")
	})
}
