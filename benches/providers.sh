# Shared by benches/soak and benches/figures: a healthy provider, broken ones, and the gateway among them.
# Sourced behind common.sh, never run.
# shellcheck shell=bash

# A peer that is a provider: start_peer NAME ARGUMENTS..., and its address is in ${address[NAME]}.
declare -A address
start_peer() {
    local name=$1
    shift
    pinned 1 "$peer" "$@" >"$work/$name.out" &
    pids+=("$!")
    address[$name]=$(await_line "$work/$name.out" '127\.0\.0\.1:[0-9]+' "$!")
}

start_providers() {
    start_peer healthy upstream --chunk-ms 1
    start_peer broken broken
    start_peer flapping broken --flap-ms 700 --chunk-ms 1
    start_peer stuck upstream
    address[played]=127.0.0.1:$(free_port)
}

# One provider as a table; none may keep the others waiting.
provider_table() {
    printf '[providers.%s]\nname = "%s"\nbase_url = "http://%s/v1"\nmax_in_flight = 100000\n' "$1" "$1" "${address[$1]}"
}

# A model at these providers, the first of which is the cheapest: model_table NAME UPSTREAM_MODEL PROVIDERS...
model_table() {
    local name=$1 upstream_model=$2 provider price=1
    shift 2
    printf '[[models]]\nid = "bench/%s"\ncontext_length = 1000000\nsupported_parameters = ["max_tokens", "temperature"]\n' "$name"
    for provider in "$@"; do
        printf '[[models.endpoints]]\nprovider = "%s"\nupstream_model = "%s"\n' "$provider" "$upstream_model"
        printf 'pricing = { prompt = "0.000000%s", completion = "0.000000%s" }\n' "$price" "$price"
        price=$((price + 4))
    done
}

# start_gateway FURTHER_LINES: everything as shipped but for what is said here.
start_gateway() {
    {
        cat <<END
$1
[server]
bind = "127.0.0.1:0"
workers = 1
[simulation]
mode = "off"
[ledger]
capacity = 2000
[routing]
objective = "cheapest"
END
        for provider in healthy broken flapping stuck played; do
            provider_table "$provider"
        done
        model_table one bench-1 healthy
        model_table bench-held bench-held healthy
        model_table guarded bench-1 flapping broken healthy
        model_table broken bench-1 broken
        model_table stuck bench-held stuck
        model_table played bench-1 played
    } >"$work/config.toml"
    pinned 0 "$binary" --config "$work/config.toml" >"$work/pointsman.out" 2>"$work/pointsman.err" &
    pids+=("$!")
    pointsman_pid=$!
    pointsman=$(await_line "$work/pointsman.out" '127\.0\.0\.1:[0-9]+' "$pointsman_pid")
}

# measure COMMAND ARGUMENTS...: a measuring peer at the gateway.
measure() {
    (pinned 1 "$peer" "$@" --address "$pointsman" --pid "$pointsman_pid" --path /api/v1/chat/completions --key "$key")
}

# The value of a field in a line of `name=value` words.
field() {
    sed -nE "s/(.* )?$1=([^ ]*).*/\2/p" | head -n1
}

# The sum over all series of a metric that match a pattern.
metric() {
    curl -fsS "http://$pointsman/metrics" | grep -E "^pointsman_$1" | awk '{ sum += $NF } END { print sum + 0 }'
}
