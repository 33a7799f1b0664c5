// Toxiproxy's own Go client, unmodified, against the admin API: toxiproxy HOST PORT UPSTREAM.
// UPSTREAM echoes. Prints one JSON line for each check: {"check", "ok", "message"}.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"sort"
	"strings"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
)

var (
	client   = toxiproxy.NewClient(net.JoinHostPort(os.Args[1], os.Args[2]))
	upstream = os.Args[3]
)

// echo gives the time that a round trip through the proxy takes.
func echo(proxy *toxiproxy.Proxy) (time.Duration, error) {
	connection, err := net.DialTimeout("tcp", proxy.Listen, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	started := time.Now()
	if err := connection.SetDeadline(started.Add(10 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(connection, "petal"); err != nil {
		return 0, err
	}
	read := make([]byte, 5)
	if _, err := io.ReadFull(connection, read); err != nil {
		return 0, err
	}
	if string(read) != "petal" {
		return 0, fmt.Errorf("echo gave %q", read)
	}
	return time.Since(started), nil
}

func echoes(proxy *toxiproxy.Proxy) error {
	_, err := echo(proxy)
	return err
}

func refused(proxy *toxiproxy.Proxy) error {
	if _, err := echo(proxy); !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("connection not refused: %v", err)
	}
	return nil
}

func status(err error, wanted int) error {
	var failure *toxiproxy.ApiError
	if !errors.As(err, &failure) || failure.Status != wanted || failure.Message == "" {
		return fmt.Errorf("error %v instead of status %d", err, wanted)
	}
	return nil
}

func equal(found, wanted any) error {
	if !reflect.DeepEqual(found, wanted) {
		return fmt.Errorf("%v instead of %v", found, wanted)
	}
	return nil
}

func first(failures ...error) error {
	for _, failure := range failures {
		if failure != nil {
			return failure
		}
	}
	return nil
}

func version() error {
	body, err := client.Version()
	if err != nil {
		return err
	}
	var answer struct{ Version string }
	return first(json.Unmarshal(body, &answer), equal(answer.Version, "2.12.0"))
}

func create() error {
	proxy, err := client.CreateProxy("go", "localhost:0", upstream)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(proxy.Listen, "127.0.0.1:") || strings.HasSuffix(proxy.Listen, ":0") {
		return fmt.Errorf("listen reads back as %s", proxy.Listen)
	}
	return first(equal(proxy.Upstream, upstream), equal(proxy.Enabled, true), echoes(proxy))
}

func createTwice() error {
	_, err := client.CreateProxy("go", "localhost:0", upstream)
	return status(err, 409)
}

func missing() error {
	_, err := client.Proxy("none")
	return status(err, 404)
}

func populate() error {
	made, err := client.Populate([]toxiproxy.Proxy{
		{Name: "go-one", Listen: "127.0.0.1:0", Upstream: upstream, Enabled: true},
		{Name: "go-two", Listen: "127.0.0.1:0", Upstream: upstream, Enabled: true},
	})
	if err != nil {
		return err
	}
	if len(made) != 2 {
		return fmt.Errorf("%d proxies made", len(made))
	}
	all, err := client.Proxies()
	names := []string{}
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	return first(err, echoes(made[0]), echoes(made[1]), equal(names, []string{"go", "go-one", "go-two"}))
}

func populateInUse() error {
	proxy, err := client.Proxy("go")
	if err != nil {
		return err
	}
	_, err = client.Populate([]toxiproxy.Proxy{{Name: "go-three", Listen: proxy.Listen, Upstream: upstream, Enabled: true}})
	if failure := status(err, 500); failure != nil {
		return failure
	}
	if wanted := "listen tcp " + proxy.Listen + ": bind: address already in use"; !strings.HasSuffix(err.Error(), wanted) {
		return fmt.Errorf("error %q does not end with %q", err, wanted)
	}
	return nil
}

func toxic(kind string, attributes toxiproxy.Attributes) func() error {
	return func() error {
		proxy, err := client.Proxy("go")
		if err != nil {
			return err
		}
		for _, stream := range []string{"upstream", "downstream"} {
			made, err := proxy.AddToxic("", kind, stream, 0.25, attributes)
			if err != nil {
				return err
			}
			wanted := toxiproxy.Toxic{Name: kind + "_" + stream, Type: kind, Stream: stream, Toxicity: 0.25, Attributes: attributes}
			listed, err := proxy.Toxics()
			if failure := first(err, equal(*made, wanted), equal(listed, toxiproxy.Toxics{wanted})); failure != nil {
				return failure
			}
			if err := first(proxy.RemoveToxic(made.Name), status(proxy.RemoveToxic(made.Name), 404)); err != nil {
				return err
			}
		}
		return nil
	}
}

func unknownToxic() error {
	proxy, err := client.Proxy("go")
	if err != nil {
		return err
	}
	_, err = proxy.AddToxic("", "nectar", "", 1, nil)
	return status(err, 400)
}

func latency() error {
	proxy, err := client.Proxy("go")
	if err != nil {
		return err
	}
	if _, err := proxy.AddToxic("slow", "latency", "", 1, toxiproxy.Attributes{"latency": 1000}); err != nil {
		return err
	}
	if took, err := echo(proxy); err != nil || took < time.Second {
		return fmt.Errorf("with 1 s: %v, %v", took, err)
	}
	updated, err := proxy.UpdateToxic("slow", -1, toxiproxy.Attributes{"jitter": 10, "latency": 1500})
	if failure := first(err, equal(updated.Attributes, toxiproxy.Attributes{"jitter": 10.0, "latency": 1500.0})); failure != nil {
		return failure
	}
	if took, err := echo(proxy); err != nil || took < 1490*time.Millisecond {
		return fmt.Errorf("with 1.5 s: %v, %v", took, err)
	}
	if err := proxy.RemoveToxic("slow"); err != nil {
		return err
	}
	if took, err := echo(proxy); err != nil || took >= time.Second {
		return fmt.Errorf("removed: %v, %v", took, err)
	}
	return nil
}

func update() error {
	proxy, err := client.Proxy("go")
	if err != nil {
		return err
	}
	listen := proxy.Listen
	if err := first(proxy.Disable(), refused(proxy), proxy.Enable(), echoes(proxy), equal(proxy.Listen, listen)); err != nil {
		return err
	}
	// Save posts the whole proxy, its list of toxics with it: that must not touch the toxics.
	if _, err := proxy.AddToxic("kept", "noop", "", 1, nil); err != nil {
		return err
	}
	if err := first(proxy.Save(), echoes(proxy)); err != nil {
		return err
	}
	toxics, err := proxy.Toxics()
	return first(err, equal(len(toxics), 1), proxy.RemoveToxic("kept"), proxy.Save())
}

func reset() error {
	proxy, err := client.Proxy("go")
	if err != nil {
		return err
	}
	if _, err := proxy.AddToxic("slow", "latency", "", 1, toxiproxy.Attributes{"latency": 60000}); err != nil {
		return err
	}
	if err := first(proxy.Disable(), client.ResetState()); err != nil {
		return err
	}
	again, err := client.Proxy("go")
	if err != nil {
		return err
	}
	return first(equal(again.Enabled, true), equal(len(again.ActiveToxics), 0), echoes(again))
}

func remove() error {
	all, err := client.Proxies()
	if err != nil {
		return err
	}
	for _, proxy := range all {
		if err := first(proxy.Delete(), refused(proxy)); err != nil {
			return err
		}
	}
	all, err = client.Proxies()
	return first(err, equal(len(all), 0))
}

func main() {
	type check struct {
		name string
		run  func() error
	}
	checks := []check{{"version", version}, {"create", create}, {"create twice", createTwice}, {"missing proxy", missing},
		{"populate", populate}, {"populate an address in use", populateInUse}}
	for _, each := range []struct {
		kind       string
		attributes toxiproxy.Attributes
	}{
		{"latency", toxiproxy.Attributes{"latency": 150.0, "jitter": 5.0}},
		{"bandwidth", toxiproxy.Attributes{"rate": 1000.0}},
		{"slow_close", toxiproxy.Attributes{"delay": 5.0}},
		{"timeout", toxiproxy.Attributes{"timeout": 60000.0}},
		{"reset_peer", toxiproxy.Attributes{"timeout": 60000.0}},
		{"slicer", toxiproxy.Attributes{"average_size": 10.0, "size_variation": 5.0, "delay": 10.0}},
		{"limit_data", toxiproxy.Attributes{"bytes": 1000000.0}},
		{"noop", toxiproxy.Attributes{}},
	} {
		checks = append(checks, check{"toxic " + each.kind, toxic(each.kind, each.attributes)})
	}
	checks = append(checks, check{"unknown toxic type", unknownToxic}, check{"latency added, updated, removed", latency},
		check{"update proxy", update}, check{"reset", reset}, check{"remove", remove})
	output := json.NewEncoder(os.Stdout)
	for _, each := range checks {
		message := ""
		err := each.run()
		if err != nil {
			message = err.Error()
		}
		if err := output.Encode(map[string]any{"check": each.name, "ok": err == nil, "message": message}); err != nil {
			panic(err)
		}
	}
}
