// Package resilience shows a test of a program that streams from a language model.
package resilience

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

type object = map[string]any

func aconite(t *testing.T, method, path string, body any, answer any) {
	t.Helper()
	base := os.Getenv("ACONITE_URL")
	if base == "" {
		base = "http://127.0.0.1:8474"
	}
	content, _ := json.Marshal(body)
	request, err := http.NewRequest(method, base+"/v1"+path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("authorization", "Bearer "+os.Getenv("ACONITE_TOKEN"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("no Aconite server at %s: %v. Start one with `aconite serve`, or set ACONITE_URL", base, err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			t.Fatal(err)
		}
	}
}

// The program under test.
func stream(address string) (string, error) {
	body := `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	request, err := http.NewRequest("POST", "http://"+address+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("content-type", "application/json")
	request.Header.Set("authorization", "Bearer any")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestABrokenStreamIsNoticed(t *testing.T) {
	var proxy struct{ Listen string }
	// A name of its own: test runs can share a server.
	name := "go-" + rand.Text()
	aconite(t, "POST", "/proxies", object{"name": name, "listen": "127.0.0.1:0", "upstream": "sim://openai?tps=1000"}, &proxy)
	t.Cleanup(func() { aconite(t, "DELETE", "/proxies/"+name, nil, nil) })

	if text, err := stream(proxy.Listen); err != nil || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Fatalf("healthy: %q, %v", text, err)
	}
	for how, wanted := range map[string]error{"fin": io.ErrUnexpectedEOF, "rst": syscall.ECONNRESET} {
		aconite(t, "POST", "/proxies/"+name+"/toxics", object{"type": "cut", "attributes": object{"at": object{"events": 3}, "how": how}}, nil)
		if _, err := stream(proxy.Listen); !errors.Is(err, wanted) {
			t.Errorf("%s: %v instead of %v", how, err, wanted)
		}
		var journal struct {
			Exchanges []struct{ Toxics []struct{ Struck bool } }
		}
		aconite(t, "GET", "/exchanges?proxy="+name+"&wait=1", nil, &journal)
		if toxics := journal.Exchanges[len(journal.Exchanges)-1].Toxics; len(toxics) == 0 || !toxics[0].Struck {
			t.Errorf("%s: no toxic was applied", how)
		}
		aconite(t, "DELETE", "/proxies/"+name+"/toxics", nil, nil)
	}
}
