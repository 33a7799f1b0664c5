// Asks for the URLs in its arguments with Go's standard client, configured by the environment alone.
// Prints one line of JSON for each.
package main

import (
	"encoding/json"
	"net/http"
	"os"
	"time"
)

func main() {
	client := &http.Client{Timeout: 20 * time.Second}
	output := json.NewEncoder(os.Stdout)
	for _, url := range os.Args[1:] {
		said := map[string]any{"outcome": "ok"}
		if response, err := client.Get(url); err != nil {
			said = map[string]any{"outcome": "error", "message": err.Error()}
		} else {
			said["status"] = response.StatusCode
			response.Body.Close()
		}
		if err := output.Encode(said); err != nil {
			panic(err)
		}
	}
}
