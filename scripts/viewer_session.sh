#!/usr/bin/env bash
# A display without a screen: runs a command under Xvfb with software rendering.
set -euo pipefail

case "${1:-}" in
  "" | -h | --help)
    echo "usage: scripts/viewer_session.sh COMMAND [ARGUMENT...]"
    echo "Runs COMMAND with DISPLAY set to a fresh Xvfb of 1440x900, and settings in a folder that is"
    echo "removed afterwards. Exits with 77 if Xvfb or xdotool is not installed."
    [[ -n ${1:-} ]] && exit 0 || exit 2
    ;;
esac

for tool in Xvfb xdotool; do
  if ! command -v "$tool" >/dev/null; then
    echo "$tool is not installed: run scripts/setup.sh --dev"
    exit 77  # ctest: skipped.
  fi
done

folder=$(mktemp -d)
cleanup() {
  [[ -n ${xvfb:-} ]] && kill "$xvfb" 2>/dev/null && wait "$xvfb" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT

# -noreset: else the server starts anew when its last client, such as one xdotool, goes.
mkfifo "$folder/display"
Xvfb -displayfd 3 -screen 0 1440x900x24 -noreset -nolisten tcp 3>"$folder/display" 2>"$folder/xvfb.log" &
xvfb=$!
read -r -t 20 number <"$folder/display" || { echo "Xvfb did not start:"; cat "$folder/xvfb.log"; exit 77; }

export DISPLAY=:$number LIBGL_ALWAYS_SOFTWARE=1
export XDG_CONFIG_HOME=$folder/config XDG_STATE_HOME=$folder/state
"$@"
