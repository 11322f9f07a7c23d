# Shared by the end-to-end benchmarks: builds, starts the servers on free loopback ports, cleans up.
# Sourced, never run. Expects `set -euo pipefail` and the repository's root as working directory.
# shellcheck shell=bash

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(realpath "$target")
work=$(mktemp -d "${TMPDIR:-/tmp}/pointsman-bench.XXXXXX")
ticks=$(getconf CLK_TCK)
key=sk-pointsman-development

pids=()

fail() {
    printf '%s: %s\n' "$0" "$*" >&2
    exit 1
}

cleanup() {
    local pid waited
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        for ((waited = 0; waited < 50; waited++)); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

need_package() {
    local command=$1 package=$2
    if command -v "$command" >/dev/null; then
        return
    fi
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || fail "needs $package: install it, or run this as root on Debian"
    apt-get update -qq
    # The package would start a server of its own on port 80.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
}

# POINTSMAN_BINARY names another version of the gateway to measure, BENCH_PEER another build of the peers.
build() {
    if [[ -z ${POINTSMAN_BINARY:-} || -z ${BENCH_PEER:-} ]]; then
        cargo build --quiet --locked --release -p pointsman -p pointsman-bench-peer --bin pointsman --bin bench-peer
    fi
    binary=${POINTSMAN_BINARY:-$target/release/pointsman}
    peer=${BENCH_PEER:-$target/release/bench-peer}
}

# Becomes a program on one core: proxies share one and the peers the other, so that nobody steals the
# time that is measured. For subshells only.
pinned() {
    local core=$1
    shift
    if [[ $(nproc) -ge 2 ]] && command -v taskset >/dev/null; then
        exec taskset -c "$core" "$@"
    fi
    exec "$@"
}

# Waits until a file holds a line that matches, and prints the match.
await_line() {
    local file=$1 pattern=$2 pid=$3 waited
    for ((waited = 0; waited < 1200; waited++)); do
        if grep -oE -m1 "$pattern" "$file" 2>/dev/null | head -n1 | grep .; then
            return
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$file" >&2
    tail -n 5 "${file%.out}.err" >&2 2>/dev/null || true
    fail "no line like '$pattern' in $file"
}

start_upstream() {
    pinned 1 "$peer" upstream --chunk-ms "$1" >"$work/upstream.out" &
    pids+=("$!")
    upstream=$(await_line "$work/upstream.out" '127\.0\.0\.1:[0-9]+' "$!")
}

# A port nobody listens on, from the given one on. nginx cannot choose one itself and tell it.
free_port() {
    local port
    for ((port = ${1:-18080}; port < 18180; port++)); do
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
    fail 'no free port from 18080 to 18179'
}

start_nginx() {
    local port
    port=$(free_port)
    nginx=127.0.0.1:$port
    cat >"$work/nginx.conf" <<END
worker_processes 1;
daemon off;
pid $work/nginx.pid;
error_log $work/nginx.err warn;
worker_rlimit_nofile 65536;
events { worker_connections 16384; }
http {
    access_log off;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    client_body_buffer_size 256k;
    client_max_body_size 32m;
    keepalive_requests 1000000000;
    keepalive_timeout 75s;
    upstream fixed {
        server $upstream;
        keepalive 512;
        keepalive_requests 1000000000;
    }
    server {
        listen 127.0.0.1:$port backlog=4096;
        tcp_nodelay on;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location / { proxy_pass http://fixed; }
        location /streamed/ {
            proxy_buffering off;
            proxy_read_timeout 600s;
            proxy_pass http://fixed/;
        }
    }
}
END
    mkdir -p "$work"/{body,proxy,fastcgi,uwsgi,scgi}
    # Its worker gives up root; without this it could not reach its directories.
    chmod 755 "$work"
    pinned 0 nginx -c "$work/nginx.conf" -e "$work/nginx.err" &
    pids+=("$!")
    local master=$! waited
    for ((waited = 0; waited < 100; waited++)); do
        nginx_pid=$(pgrep -P "$master" || true)
        if [[ -n $nginx_pid ]] && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            return
        fi
        sleep 0.05
    done
    cat "$work/nginx.err" >&2
    fail 'nginx did not start'
}

# One provider, the fixed upstream, and everything else as shipped: keys, routing, ledger, metrics, log. With a name, a
# directory of its own and further lines of configuration.
start_pointsman() {
    local home=$work/${1:-pointsman}
    mkdir -p "$home"
    # That of an earlier start names another address.
    rm -f "$home.out"
    cat >"$home/config.toml" <<END
${2:-}
[server]
bind = "127.0.0.1:0"
workers = 1

[simulation]
mode = "off"

[providers.bench]
name = "Bench"
base_url = "http://$upstream/v1"
max_in_flight = 100000

[[models]]
id = "bench/one"
context_length = 1000000
supported_parameters = ["max_tokens", "temperature"]
pricing = { prompt = "0.0000001", completion = "0.0000004" }
[[models.endpoints]]
provider = "bench"
upstream_model = "bench-1"

# The same upstream, with streams in the Messages API.
[providers.messages]
name = "Messages"
base_url = "http://$upstream/v1"
dialect = "anthropic"
max_in_flight = 100000

[[models]]
id = "bench/messages"
context_length = 1000000
supported_parameters = ["max_tokens", "temperature"]
pricing = { prompt = "0.0000001", completion = "0.0000004" }
[[models.endpoints]]
provider = "messages"
upstream_model = "bench-messages"

[[models]]
id = "bench/bench-held"
context_length = 1000000
supported_parameters = ["max_tokens", "temperature"]
pricing = { prompt = "0.0000001", completion = "0.0000004" }
[[models.endpoints]]
provider = "bench"
upstream_model = "bench-held"
END
    pinned 0 "$binary" --config "$home/config.toml" >"$home.out" 2>"$home.err" &
    pids+=("$!")
    pointsman_pid=$!
    pointsman=$(await_line "$home.out" '127\.0\.0\.1:[0-9]+' "$pointsman_pid")
}

# A model at a provider.
model() {
    printf '[[models]]\nid = "%s"\ncontext_length = 1000000\nsupported_parameters = ["max_tokens", "temperature"]\n' "$1"
    printf 'pricing = { prompt = "0.0000001", completion = "0.0000004" }\n'
    printf '[[models.endpoints]]\nprovider = "%s"\nupstream_model = "%s"\n' "$2" "$3"
}

# Providers and a model of so many endpoints, all at the one upstream.
endpoints() {
    local count=$1 number
    for ((number = 1; number <= count; number++)); do
        printf '[providers.of%s-%s]\nname = "Of %s: %s"\nbase_url = "http://%s/v1"\n' "$count" "$number" "$count" "$number" "$upstream"
    done
    model "bench/of$count" "of$count-1" bench-1
    for ((number = 2; number <= count; number++)); do
        printf '[[models.endpoints]]\nprovider = "of%s-%s"\nupstream_model = "bench-1"\n' "$count" "$number"
    done
}

# What actix-web and awc cost by themselves, before the same upstream.
start_floor() {
    rm -f "$work/floor.out"
    pinned 0 "${1:-$peer}" floor --address "$upstream" --key "$key" >"$work/floor.out" 2>"$work/floor.err" &
    pids+=("$!")
    floor_pid=$!
    floor=$(await_line "$work/floor.out" '127\.0\.0\.1:[0-9]+' "$floor_pid")
}

# Makes a script that runs a program under callgrind, and prints its path. Copies and fills are made by vector instructions:
# callgrind counts the one instruction that glibc uses for large ones as one per byte, ten times what they cost.
# SHA-256 is not counted: valgrind hides the processor's instructions for it, and without them it takes twenty times as many.
under_callgrind() {
    local script=$work/counted-${1##*/} never=0x1000000000
    local options='--tool=callgrind --toggle-collect="sha2::sha256::compress256*" --collect-atstart=yes'
    printf '#!/bin/sh\nexport GLIBC_TUNABLES=%s\nexec valgrind '"$options"' --callgrind-out-file="%s" "%s" "$@"\n' \
        "glibc.cpu.x86_rep_movsb_threshold=$never:glibc.cpu.x86_rep_stosb_threshold=$never" "${CALLGRIND_OUT:-/dev/null}" "$1" >"$script"
    chmod +x "$script"
    echo "$script"
}

# Ends a program under callgrind, whose standard error is in a file, and prints the instructions of its whole run.
counted_instructions() {
    kill -TERM "$1"
    wait "$1" || true
    sed -nE 's/.*Collected *: ([0-9]+).*/\1/p' "$2" | grep . || fail 'valgrind told no count'
}

machine() {
    local model
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n1)
    printf '%s, %s × %s, load %s, Linux %s, nginx %s, pointsman %s\n' "$(date -u +%F)" "$(nproc)" "${model:-unknown processor}" \
        "$(cut -d' ' -f1 /proc/loadavg)" "$(uname -r)" "$(nginx -v 2>&1 | grep -oE '[0-9.]+' | head -n1)" \
        "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
}
