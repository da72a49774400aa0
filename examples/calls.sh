# Functions that call the API, for the scripts beside this file: source it with the API's address.
api="${1:-${GPURUNTIME_API:-${GPURUNTIME_SERVER:-http://127.0.0.1:8080}}}/api/v1"
answer=""
status=""

# call STATUS METHOD PATH [BODY]: end the script on any other status; STATUS may be a pattern.
call() {
  local wanted=$1 method=$2 path=$3 body=${4:-}
  local options=(--silent --show-error --request "$method" --write-out '\n%{http_code}')
  if [[ -n $body ]]; then
    options+=(--header 'Content-Type: application/json' --data "$body")
  fi
  answer=$(curl "${options[@]}" "$api$path")
  status=${answer##*$'\n'}
  answer=${answer%$'\n'*}
  echo "$status $method $path"
  if [[ $status != $wanted ]]; then
    echo "$(basename "$0" .sh): wanted $wanted, not $status: $answer" >&2
    exit 1
  fi
}

# has WORDS: end the script unless the last answer contains them.
has() {
  if [[ $answer != *"$1"* ]]; then
    echo "$(basename "$0" .sh): wanted $1 in $answer" >&2
    exit 1
  fi
}

# wait_for PATH WORDS...: repeat the request until an answer contains one of them.
wait_for() {
  local path=$1 words deadline=$((SECONDS + 60))
  shift
  while true; do
    answer=$(curl --silent --show-error "$api$path")
    for words in "$@"; do
      if [[ $answer == *"$words"* ]]; then
        echo "    GET $path has $words"
        return
      fi
    done
    if ((SECONDS > deadline)); then
      echo "$(basename "$0" .sh): $path never had $*: $answer" >&2
      exit 1
    fi
    sleep 0.2
  done
}
