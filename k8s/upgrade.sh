#!/usr/bin/env bash
# Put another version of the bank in the place of the one that runs, or put the old one back.
#
#   k8s/upgrade.sh [--namespace NAME] [--timeout SECONDS] KUSTOMIZATION
#
# 1. stops the bank with a savepoint; where none comes about, nothing has been touched and the bank runs on;
# 2. takes its RayJob away, and makes that of KUSTOMIZATION, which goes on from the savepoint: nothing is later;
# 3. waits until the bank runs, and still runs in the same life a moment later;
# 4. else takes the new RayJob away and makes the old one again, pinned to the savepoint: what the new version may have
#    committed meanwhile is not for the old one.
#
# The pin is the ConfigMap bank-pin, which the pods of the head read when they start, until the bank runs.
#
# Exit codes: 0 the new version runs; 1 it does not, and the old one does; 2 nothing was done; 3 no savepoint came about,
# and nothing was touched; 4 somebody has to look: the last line says at what. So it ends too where it is interrupted.
# Needs kubectl, with the rights to get, apply and delete what k8s/base has, and to exec into its pods.
set -euo pipefail

readonly JOB=bank PIN=bank-pin SETTLE_S="${UPGRADE_SETTLE_S:-30}" PAUSE_S="${UPGRADE_PAUSE_S:-5}"
namespace=() within_s=900 told='' stopping='' savepoint=''

say() { printf '%s\n' "upgrade: $*" >&2; }
leave() { local code=$1; shift; told=yes; say "$*"; exit "$code"; }
kube() { kubectl ${namespace[@]+"${namespace[@]}"} "$@"; }  # an empty list is an error to bash 3

# What the first such key of a JSON line is: a text or a number. Nothing where there is none.
value_of() { grep -oE "\"$1\": *(\"[^\"]+\"|[0-9]+)" | head -n 1 | sed -E 's/^[^:]*: *"?([^"]*)"?$/\1/' || true; }

head_pod() {
  kube get pods --selector "app=$JOB,ray.io/node-type=head" --field-selector status.phase=Running \
    --output 'jsonpath={.items[0].metadata.name}' 2>/dev/null
}

in_head() { local pod; pod=$(head_pod) && [[ -n $pod ]] && kube exec "$pod" --container ray-head -- "$@"; }

# The life that runs now, or nothing.
running_life() { in_head rayshot status "$JOB" --wait running --timeout 30 --json 2>/dev/null | value_of life; }

# What KubeRay says of the RayJob: Running, Retrying, Failed, ...
deployment() { kube get rayjob "$JOB" --output 'jsonpath={.status.jobDeploymentStatus}' 2>/dev/null; }

# Wait until the bank runs with its driver, in a life that is still the same one when both have had time to fail.
runs() {
  local deadline=$((SECONDS + within_s)) life
  while ((SECONDS < deadline)); do
    life=$(running_life || true)
    if [[ -n $life ]]; then
      sleep "$SETTLE_S"
      [[ $(running_life || true) == "$life" && $(deployment || true) == Running ]] && return 0
    fi
    case $(deployment || true) in
      Failed | ValidationFailed | Complete) return 1 ;;
      *) ;;
    esac
    sleep "$PAUSE_S"
  done
  return 1
}

# The cluster of the RayJob is gone too when this returns: foreground deletion waits for what it owns.
take_away() { kube delete rayjob "$JOB" --ignore-not-found --cascade=foreground --timeout "${within_s}s" >&2; }

pin() { kube create configmap "$PIN" --from-literal "snapshot=$savepoint" >&2; }
unpin() { kube delete configmap "$PIN" --ignore-not-found >&2; }

while [[ ${1:-} == -* ]]; do
  (($# > 1)) || leave 2 "$1: say what"
  case $1 in
    --namespace) namespace=(--namespace "$2") ;;
    --timeout) within_s=$2 ;;
    *) leave 2 "no such option: $1" ;;
  esac
  shift 2
done
(($# == 1)) || leave 2 "say which kustomization: k8s/upgrade.sh [--namespace NAME] [--timeout SECONDS] k8s/overlays/pvc"

[[ $within_s =~ ^[1-9][0-9]*$ ]] || leave 2 "--timeout $within_s: give seconds"

files=$(mktemp -d) || leave 2 "there is no room for temporary files: nothing was done"

# How to go on by hand, with the old version in a file that stays.
by_hand() {
  cp "$files/old.json" "$JOB-before-upgrade.json" || cat "$files/old.json" >&2
  printf '%s' "When the cluster is well, delete RayJob $JOB, make ConfigMap $PIN with snapshot=$savepoint where it is not" \
    " there, apply $JOB-before-upgrade.json, and delete $PIN when the bank runs"
}

# Whatever ends the script, Ctrl-C too, the last line says how things are. A trap calls it.
# shellcheck disable=SC2329
ended() {
  local code=$?
  trap '' INT TERM HUP
  if [[ -z $told && -n $savepoint ]]; then
    say "interrupted: nobody knows which version runs; savepoint $savepoint is safe. $(by_hand)"
    code=4
  elif [[ -z $told && -n $stopping ]]; then
    say "interrupted while the bank was stopped: nobody knows whether it was. rayshot status $JOB says it; where it is" \
      "gone, delete the RayJob and apply it again: it goes on from the savepoint"
    code=4
  elif [[ -z $told ]]; then
    say "interrupted: nothing was done"
    code=2
  fi
  rm -rf "$files"
  exit "$code"
}
trap ended EXIT
trap 'exit 4' INT TERM HUP

# Before anything is touched: all that can be known to go wrong.
kube kustomize "$1" >"$files/new.yaml" || leave 2 "$1 cannot be built: nothing was done"
kube apply --dry-run=server --filename "$files/new.yaml" >&2 || leave 2 "the cluster refuses $1: nothing was done"
kube apply view-last-applied "rayjob/$JOB" --output json >"$files/old.json" ||
  leave 2 "there is no RayJob $JOB that was made with kubectl apply, so there would be no way back: nothing was done"
if kube get configmap "$PIN" >/dev/null 2>&1; then
  leave 2 "ConfigMap $PIN is there: an upgrade has not ended. If the bank runs, delete it and begin again: nothing was done"
fi

say "stopping the bank with a savepoint"
code=0 stopping=yes
stopped=$(in_head rayshot stop "$JOB" --savepoint "before the upgrade" --json) || code=$?
savepoint=$(value_of snapshot <<<"$stopped")
if ((code != 0)) || [[ -z $savepoint ]]; then
  leave 3 "rayshot stop ended with $code${stopped:+, and said $stopped}: nothing was touched. Is the bank still there? rayshot status $JOB says it"
fi
say "stopped, with savepoint $savepoint"
back() {
  say "$1: going back to the old version, from savepoint $savepoint"
  if take_away && pin && kube apply --filename "$files/old.json" >&2 && runs; then
    unpin || leave 4 "the old version runs again, but ConfigMap $PIN is still there: delete it"
    leave 1 "the new version does not run: the old one does again, from savepoint $savepoint"
  fi
  leave 4 "neither version runs; savepoint $savepoint is safe. $(by_hand)"
}

take_away || back "the old RayJob did not go"
kube apply --filename "$files/new.yaml" >&2 || back "the new version could not be applied"
runs || back "the new version did not run within $within_s s"
leave 0 "the new version runs, from savepoint $savepoint"
