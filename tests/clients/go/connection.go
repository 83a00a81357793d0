package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

var (
	endpoint = os.Getenv("PERSEID_ENDPOINT")
	key      = os.Getenv("PERSEID_KEY")
	sender   = must(transport(os.Getenv("PERSEID_CERT")))
)

func connect() (*azcosmos.Client, error) {
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		return nil, err
	}
	options := &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: sender}}
	return azcosmos.NewClientWithKey(endpoint, credential, options)
}

// transport trusts the certificate in the file, besides those of the system.
func transport(file string) (*http.Client, error) {
	if file == "" {
		return &http.Client{}, nil
	}
	certificate, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	trusted, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	trusted.AppendCertsFromPEM(certificate)
	settings := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings}}, nil
}

func advance(seconds int) {
	moveClock("advance", fmt.Sprintf(`{"seconds": %d}`, seconds))
}

// moveClock calls the admin API of a server with --test-clock.
func moveClock(action, content string) {
	path := "_perseid/clock/" + action
	date := time.Now().UTC().Format(http.TimeFormat)
	hash := hmac.New(sha256.New, must(base64.StdEncoding.DecodeString(key)))
	fmt.Fprintf(hash, "post\n_perseid\n%s\n%s\n\n", path, strings.ToLower(date))
	signature := base64.StdEncoding.EncodeToString(hash.Sum(nil))
	request := must(http.NewRequest(http.MethodPost, strings.TrimRight(endpoint, "/")+"/"+path, strings.NewReader(content)))
	request.Header.Set("x-ms-date", date)
	request.Header.Set("x-ms-version", "2020-07-15")
	request.Header.Set("authorization", url.QueryEscape("type=master&ver=1.0&sig="+signature))
	request.Header.Set("content-type", "application/json")
	response := must(sender.Do(request))
	defer response.Body.Close()
	text := must(io.ReadAll(response.Body))
	same(true, response.StatusCode < 300, "clock: "+string(text))
}
