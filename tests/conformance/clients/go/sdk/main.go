// Go's standard HTTP client, configured by the environment alone, reading provider streams.
//
// Reads one JSON request a line ({"case": "openai/stream", "http": 1, "timeout": 5}) and answers each with one line:
// the outcome, the error's class, the protocol spoken, and what was read before the end.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

type request struct {
	Case    string
	HTTP    int
	Timeout float64
}

type answer struct {
	Outcome string `json:"outcome"`
	Error   string `json:"error"`
	Message string `json:"message"`
	Status  int    `json:"status"`
	Proto   string `json:"proto"`
	Events  int    `json:"events"`
	Text    string `json:"text"`
}

const prompt = "Name the parts of a flower, please: petals, sepals, stamens, pistil."

var bodies = map[string][2]string{
	"openai": {
		"https://api.openai.com/v1/chat/completions",
		`{"model":"gpt-4o-mini","stream":%t,"messages":[{"role":"user","content":"` + prompt + `"}]}`,
	},
	"anthropic": {
		"https://api.anthropic.com/v1/messages",
		`{"model":"claude-sonnet-4-5","max_tokens":256,"stream":%t,"messages":[{"role":"user","content":"` + prompt + `"}]}`,
	},
}

func main() {
	first := &http.Transport{
		Proxy:        http.ProxyFromEnvironment,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	clients := map[int]*http.Client{1: {Transport: first}, 2: http.DefaultClient}
	lines := bufio.NewScanner(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		provider, kind, _ := strings.Cut(asked.Case, "/")
		var result answer
		err := call(clients[asked.HTTP], bodies[provider], kind == "stream", asked.Timeout, &result)
		result.Outcome = "ok"
		if err != nil {
			result.Outcome, result.Error, result.Message = "error", class(err), err.Error()
		}
		if err := output.Encode(result); err != nil {
			panic(err)
		}
	}
}

func call(client *http.Client, target [2]string, stream bool, seconds float64, seen *answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	body := strings.NewReader(fmt.Sprintf(target[1], stream))
	req, err := http.NewRequestWithContext(ctx, "POST", target[0], body)
	if err != nil {
		return err
	}
	req.Header.Set("content-type", "application/json")
	req.Header.Set("authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	req.Header.Set("x-api-key", os.Getenv("ANTHROPIC_API_KEY"))
	req.Header.Set("anthropic-version", "2023-06-01")
	response, err := client.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	seen.Status, seen.Proto = response.StatusCode, response.Proto
	if !stream || response.StatusCode != http.StatusOK {
		all, err := io.ReadAll(response.Body)
		seen.Text = string(all)
		return err
	}
	reader := bufio.NewReader(response.Body)
	for {
		line, err := reader.ReadString('\n')
		seen.Text += line
		if strings.HasPrefix(line, "data:") {
			seen.Events++
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func class(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "DeadlineExceeded"
	case errors.Is(err, syscall.ECONNRESET):
		return "ECONNRESET"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "ErrUnexpectedEOF"
	case strings.Contains(err.Error(), "stream error:"):
		return "StreamError"
	default:
		return fmt.Sprintf("%T", err)
	}
}
