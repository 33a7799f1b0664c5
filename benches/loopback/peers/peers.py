#!/usr/bin/env python3
"""Starts and stops the upstream and the peers, and writes targets.json.

    peers.py up [--only a,b] [--skip a,b]    start what is there, write targets.json
    peers.py down                            stop what `up` started (by pid)
    peers.py restart ...                     down, then up

Everything listens on loopback. Peers whose program is missing are left out with
a word. Where each program lies comes from the environment (see PATHS); a new
product is added with one function like the ones below, or with
`--add FILE.json` (a target object, or an array of them, as in targets.json).
"""
import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RUN = os.environ.get("BENCH_RUN", os.path.join(tempfile.gettempdir(), "bench-run"))
P = os.environ.get("BENCH_PEERS", os.path.join(RUN, "peers"))
PATHS = {
    "aconite": f"{ROOT}/../../target/dist/aconite",
    "upstream": f"{ROOT}/target/release/upstream",
    "floor": f"{ROOT}/target/release/floor",
    "toxiproxy": f"{P}/toxiproxy-server",
    "noxious": f"{P}/noxious-server",
    "haproxy": shutil.which("haproxy") or "/usr/sbin/haproxy",
    "nginx": shutil.which("nginx") or "/usr/sbin/nginx",
    "envoy": f"{P}/envoy",
    "mitmproxy": f"{P}/mitmdump",
    "hudsucker": f"{ROOT}/peers/hudsucker-mitm/target/release/hudsucker-mitm",
    "agentbreak": f"{P}/agentbreak",
    "litellm": f"{P}/litellm",
    "portkey": f"{P}/portkey/node_modules/@portkey-ai/gateway/build/start-server.js",
}
PATHS = {k: os.environ.get("BENCH_" + k.upper(), v) for k, v in PATHS.items()}
RAW, HTTP, HTTPS = "127.0.0.1:7001", "127.0.0.1:7080", 7443


def path(name):
    return os.path.join(RUN, name)


def write(name, text):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


def start(name, argv, wait, env=None, secs=60):
    """Starts a process, waits until its ports answer, records its pid."""
    for port in wait:  # somebody else's server must never be taken for ours
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                raise RuntimeError(f"port {port} is taken")
    log = open(path(f"{name}.log"), "w")
    p = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=RUN,
                         env={**os.environ, **(env or {})}, start_new_session=True)
    with open(path("pids"), "a") as f:
        f.write(f"{name} {p.pid}\n")
    end = time.time() + secs
    for port in wait:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if p.poll() is not None or time.time() > end:
                    raise RuntimeError(f"{name} did not open port {port}: see {path(name + '.log')}")
                time.sleep(0.05)
    return p.pid


def api(port, method, url, body=None):
    req = urllib.request.Request(f"http://127.0.0.1:{port}{url}", method=method,
                                 data=json.dumps(body).encode() if body is not None else None,
                                 headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(req, timeout=5) as r:
        return r.read()


def toxiproxy_like(name, argv, port, base):
    """Toxiproxy's own API sets up both Toxiproxy and noxious."""
    pid = start(name, argv, [port])
    for sub, off, up in (("raw", 1, RAW), ("http", 2, HTTP), ("lat100", 3, RAW)):
        api(port, "POST", "/proxies", {"name": sub, "listen": f"127.0.0.1:{base + off}", "upstream": up, "enabled": True})
    api(port, "POST", "/proxies/lat100/toxics",
        {"type": "latency", "name": "lat", "stream": "downstream", "toxicity": 1.0, "attributes": {"latency": 100, "jitter": 0}})
    return [{"name": name, "pid": pid, "raw": f"127.0.0.1:{base + 1}", "http": {"addr": f"127.0.0.1:{base + 2}"},
             "lat100": f"127.0.0.1:{base + 3}"}]


def floor():
    """Not a peer: blocking threads and nothing else, the least a relay can cost here."""
    def one(mode, *pairs):
        return start(f"floor-{mode}", [PATHS["floor"], mode, *[x for p in pairs for x in p]], [int(p[0].split(":")[1]) for p in pairs])
    raw, http, spl, lat = (f"127.0.0.1:1800{i}" for i in (5, 6, 7, 8))
    return [{"name": "floor-copy", "pid": one("copy", (raw, RAW), (http, HTTP)), "raw": raw, "http": {"addr": http}},
            {"name": "floor-splice", "pid": one("splice", (spl, RAW)), "raw": spl},
            {"name": "floor-delay", "pid": one("delay100", (lat, RAW)), "lat100": lat}]


def aconite():
    """Plain, and once more with an event toxic in the way that strikes nothing."""
    never = {"name": "never", "type": "pause", "attributes": {"at": {"events": 1000000000}, "for": 1000}}
    latency = {"name": "lat", "type": "latency", "attributes": {"latency": 100}}
    config = {"seed": 1, "admin": {"listen": "127.0.0.1:18110"}, "proxies": [
        {"name": "raw", "listen": "127.0.0.1:18111", "upstream": RAW},
        {"name": "http", "listen": "127.0.0.1:18112", "upstream": f"http://{HTTP}"},
        {"name": "lat100", "listen": "127.0.0.1:18113", "upstream": RAW, "toxics": [latency]},
        {"name": "events", "listen": "127.0.0.1:18114", "upstream": f"http://{HTTP}", "toxics": [never]},
        {"name": "mitm", "protocol": "forward", "listen": "127.0.0.1:18115", "intercept": ["*"], "upstream_tls": {"insecure": True}},
    ]}
    cfg = write("aconite.json", json.dumps(config))
    data = path("aconite-data")
    pid = start("aconite", [PATHS["aconite"], "serve", "-c", cfg], [18110, 18111, 18112, 18113, 18114, 18115],
                env={"RUST_LOG": "warn", "ACONITE_DATA_DIR": data})
    return [{"name": "aconite", "pid": pid, "raw": "127.0.0.1:18111", "http": {"addr": "127.0.0.1:18112"},
             "lat100": "127.0.0.1:18113",
             "mitm": {"proxy": "127.0.0.1:18115", "port": HTTPS, "ca": f"{data}/ca.pem"}},
            {"name": "aconite-toxic", "pid": pid, "http": {"addr": "127.0.0.1:18114"}}]


def toxiproxy():
    return toxiproxy_like("toxiproxy", [PATHS["toxiproxy"], "-host", "127.0.0.1", "-port", "18004"], 18004, 18000)


def noxious():
    return toxiproxy_like("noxious", [PATHS["noxious"], "--host", "127.0.0.1", "--port", "18014"], 18014, 18010)


def haproxy():
    cfg = write("haproxy.cfg", f"""global
  maxconn 7000
  nbthread 2
defaults
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
listen raw
  mode tcp
  bind 127.0.0.1:18021
  server u {RAW}
listen rawsplice
  mode tcp
  option splice-auto
  bind 127.0.0.1:18024
  server u {RAW}
listen http
  mode http
  option http-no-delay
  http-reuse always
  bind 127.0.0.1:18022
  server u {HTTP}
""")
    pid = start("haproxy", [PATHS["haproxy"], "-db", "-f", cfg], [18021, 18022, 18024])
    return [{"name": "haproxy", "pid": pid, "raw": "127.0.0.1:18021", "http": {"addr": "127.0.0.1:18022"}},
            {"name": "haproxy-splice", "pid": pid, "raw": "127.0.0.1:18024"}]


def nginx():
    mod = "/usr/lib/nginx/modules/ngx_stream_module.so"
    cfg = write("nginx.conf", f"""{'load_module ' + mod + ';' if os.path.exists(mod) else ''}
daemon off; worker_processes 2; pid {path('nginx.pid')}; error_log {path('nginx.err')};
worker_rlimit_nofile 16384;
events {{ worker_connections 8000; }}
stream {{
  access_log off;
  server {{ listen 127.0.0.1:18031; tcp_nodelay on; proxy_pass {RAW}; proxy_timeout 1h; }}
}}
http {{
  access_log off; keepalive_requests 1000000; tcp_nodelay on;
  client_body_temp_path {path('nginx-body')}; proxy_temp_path {path('nginx-proxy')};
  fastcgi_temp_path {path('nginx-f')}; uwsgi_temp_path {path('nginx-u')}; scgi_temp_path {path('nginx-s')};
  upstream u {{ server {HTTP}; keepalive 256; keepalive_requests 1000000; }}
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {{ listen 127.0.0.1:18032; location / {{ proxy_pass http://u; proxy_buffering off; }} }}
  server {{ listen 127.0.0.1:18034; location / {{ proxy_pass http://u; }} }}
}}
""")
    pid = start("nginx", [PATHS["nginx"], "-c", cfg], [18031, 18032, 18034])
    return [{"name": "nginx", "pid": pid, "raw": "127.0.0.1:18031", "http": {"addr": "127.0.0.1:18032"}},
            {"name": "nginx-buffered", "pid": pid, "http": {"addr": "127.0.0.1:18034"}}]


def envoy():
    def cluster(name, addr):
        host, port = addr.rsplit(":", 1)
        return {"name": name, "type": "STATIC", "connect_timeout": "5s",
                "circuit_breakers": {"thresholds": [{"max_connections": 8000, "max_pending_requests": 8000, "max_requests": 8000}]},
                "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
                    "socket_address": {"address": host, "port_value": int(port)}}}}]}]}}

    def listener(port, flt):
        return {"name": f"l{port}", "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                "filter_chains": [{"filters": [flt]}]}
    t = "type.googleapis.com/envoy.extensions.filters."
    raw = {"name": "envoy.filters.network.tcp_proxy", "typed_config": {
        "@type": t + "network.tcp_proxy.v3.TcpProxy", "stat_prefix": "raw", "cluster": "raw"}}
    http = {"name": "envoy.filters.network.http_connection_manager", "typed_config": {
        "@type": t + "network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "http",
        "generate_request_id": False,
        "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": "http", "timeout": "0s"}}]}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": t + "http.router.v3.Router"}}]}}
    cfg = write("envoy.json", json.dumps({"static_resources": {
        "listeners": [listener(18051, raw), listener(18052, http)],
        "clusters": [cluster("raw", RAW), cluster("http", HTTP)]}}))
    pid = start("envoy", [PATHS["envoy"], "-c", cfg, "--concurrency", "2", "-l", "warn", "--disable-hot-restart"], [18051, 18052])
    return [{"name": "envoy", "pid": pid, "raw": "127.0.0.1:18051", "http": {"addr": "127.0.0.1:18052"}}]


def mitmproxy():
    """Twice: as it comes (bodies held until whole), and with an addon that streams them."""
    addon = write("stream_addon.py", "def responseheaders(flow):\n    flow.response.stream = True\n")
    out = []
    for name, base, extra in (("mitmproxy", 18040, []), ("mitmproxy-stream", 18100, ["-s", addon])):
        conf = path(f"{name}-ca")
        pid = start(name, [PATHS["mitmproxy"], "-q", "--set", f"confdir={conf}", "--ssl-insecure", "--listen-host", "127.0.0.1",
                           "--mode", f"reverse:tcp://{RAW}@{base + 1}", "--mode", f"reverse:http://{HTTP}@{base + 2}",
                           "--mode", f"regular@{base + 3}", *extra], [base + 1, base + 2, base + 3])
        out.append({"name": name, "pid": pid, "raw": f"127.0.0.1:{base + 1}", "http": {"addr": f"127.0.0.1:{base + 2}"},
                    "mitm": {"proxy": f"127.0.0.1:{base + 3}", "port": HTTPS, "ca": f"{conf}/mitmproxy-ca-cert.pem"}})
    return out


def hudsucker():
    key, crt = path("hudsucker.key"), path("hudsucker.pem")
    pid = start("hudsucker", [PATHS["hudsucker"], "127.0.0.1:18093", key, crt], [18093])
    return [{"name": "hudsucker", "pid": pid, "mitm": {"proxy": "127.0.0.1:18093", "port": HTTPS, "ca": crt,
                                                       "any_name": True}}]


def agentbreak():
    cfg = write("agentbreak/application.yaml", f"""llm:
  enabled: true
  mode: proxy
  upstream_url: http://{HTTP}
mcp:
  enabled: false
serve:
  host: 127.0.0.1
  port: 18062
history:
  enabled: false
""")
    scen = write("agentbreak/scenarios.yaml", "version: 1\nscenarios: []\n")
    pid = start("agentbreak", [PATHS["agentbreak"], "serve", "--config", cfg, "--scenarios", scen], [18062])
    return [{"name": "agentbreak", "pid": pid, "http": {"addr": "127.0.0.1:18062"}}]


def litellm():
    cfg = write("litellm.yaml", f"""model_list:
  - model_name: bench
    litellm_params:
      model: openai/bench
      api_base: http://{HTTP}/v1
      api_key: none
""")
    key = "sk-" + secrets.token_hex(32)  # litellm won't start without one; made for this run only
    pid = start("litellm", [PATHS["litellm"], "--config", cfg, "--host", "127.0.0.1", "--port", "18072", "--num_workers", "1"],
                [18072], env={"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}, secs=120)
    return [{"name": "litellm", "pid": pid, "http": {"addr": "127.0.0.1:18072", "headers": [["Authorization", f"Bearer {key}"]]}}]


def portkey():
    # It has no option for the listening address: keep it on loopback.
    pre = write("loopback.cjs", "const n = require('net'), l = n.Server.prototype.listen;\n"
                "n.Server.prototype.listen = function (p, ...r) {\n"
                "  return typeof p === 'number' ? l.call(this, p, '127.0.0.1', ...r.filter((x) => typeof x === 'function'))\n"
                "    : l.call(this, typeof p === 'object' && p.port !== undefined ? { ...p, host: '127.0.0.1' } : p, ...r);\n};\n")
    pid = start("portkey", ["node", "-r", pre, PATHS["portkey"], "--port=18082", "--headless"], [18082], env={"NODE_ENV": "production"})
    return [{"name": "portkey", "pid": pid, "http": {"addr": "127.0.0.1:18082", "headers": [
        ["x-portkey-provider", "openai"], ["x-portkey-custom-host", f"http://{HTTP}/v1"], ["Authorization", "Bearer none"]]}}]


PEERS = [aconite, floor, toxiproxy, noxious, haproxy, nginx, envoy, mitmproxy, hudsucker, agentbreak, litellm, portkey]


def down():
    try:
        lines = open(path("pids")).read().split("\n")
    except FileNotFoundError:
        return
    pids = [int(l.split()[1]) for l in lines if l]
    for sig, secs in ((signal.SIGTERM, 5), (signal.SIGKILL, 2)):
        for p in pids:
            try:
                os.kill(p, sig)
            except ProcessLookupError:
                pass
        end = time.time() + secs
        while pids and time.time() < end:
            pids = [p for p in pids if alive(p)]
            time.sleep(0.05)
    os.remove(path("pids"))


def alive(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def up(only, skip, add):
    os.makedirs(RUN, exist_ok=True)
    certs = path("certs")
    upid = start("upstream", [PATHS["upstream"], "--certs", certs], [7001, 7080, HTTPS])
    targets = [{"name": "direct", "upstream_pid": upid, "raw": RAW, "lat100": RAW, "http": {"addr": HTTP},
                "mitm": {"port": HTTPS, "ca": f"{certs}/ca.pem"}}]
    for peer in PEERS:
        name = peer.__name__
        if (only and name not in only) or name in skip:
            continue
        if not os.path.exists(PATHS[name]):
            print(f"{name}: not here ({PATHS[name]})", file=sys.stderr)
            continue
        t0 = time.time()
        try:
            targets += peer()
            print(f"{name}: up in {time.time() - t0:.1f} s", file=sys.stderr)
        except Exception as e:
            print(f"{name}: failed: {e}", file=sys.stderr)
    for f in add:
        extra = json.load(open(f))
        targets += extra if isinstance(extra, list) else [extra]
    print(write("targets.json", json.dumps(targets, indent=1) + "\n"))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cmd", choices=["up", "down", "restart"])
    ap.add_argument("--only", default="")
    ap.add_argument("--skip", default="")
    ap.add_argument("--add", action="append", default=[])
    a = ap.parse_args()
    if a.cmd in ("down", "restart"):
        down()
    if a.cmd in ("up", "restart"):
        up([x for x in a.only.split(",") if x], a.skip.split(","), a.add)


if __name__ == "__main__":
    main()
