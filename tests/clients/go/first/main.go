package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const (
	endpoint = "http://127.0.0.1:8081/"
	key      = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

type session struct {
	ID   string   `json:"id"`
	User string   `json:"user"`
	Cart []string `json:"cart"`
	TTL  *int32   `json:"ttl,omitempty"` // not sent without a value: the container's default applies
}

func main() {
	ctx := context.Background()
	credential, err := azcosmos.NewKeyCredential(key)
	check(err)
	client, err := azcosmos.NewClientWithKey(endpoint, credential, nil)
	check(err)
	_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil)
	checkCreated(err)
	database, err := client.NewDatabase("shop")
	check(err)

	hour := int32(3600) // items expire an hour after their last write, unless they have their own ttl
	_, err = database.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID:                     "sessions",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/user"}, Version: 2},
		DefaultTimeToLive:      &hour,
	}, nil)
	checkCreated(err)
	sessions, err := database.NewContainer("sessions")
	check(err)

	ada := azcosmos.NewPartitionKeyString("ada")
	minute := int32(60)
	for _, each := range []session{
		{ID: "s1", User: "ada", Cart: []string{"telescope"}},
		{ID: "s2", User: "ada", Cart: []string{}, TTL: &minute},
	} {
		body, err := json.Marshal(each)
		check(err)
		_, err = sessions.UpsertItem(ctx, ada, body, nil)
		check(err)
	}

	response, err := sessions.ReadItem(ctx, ada, "s1", nil)
	check(err)
	var found session
	check(json.Unmarshal(response.Value, &found))
	fmt.Printf("%s: %s\n", found.ID, strings.Join(found.Cart, ", "))

	pager := sessions.NewQueryItemsPager("SELECT * FROM c WHERE c.user = 'ada'", ada, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		check(err)
		for _, item := range page.Items {
			each := session{TTL: &hour}
			check(json.Unmarshal(item, &each))
			fmt.Printf("%s expires after %d seconds\n", each.ID, *each.TTL)
		}
	}
}

// checkCreated accepts that the resource exists already.
func checkCreated(err error) {
	var refused *azcore.ResponseError
	if errors.As(err, &refused) && refused.StatusCode == http.StatusConflict {
		return
	}
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
