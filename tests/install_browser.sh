#!/usr/bin/env bash
# Chromium, for tests that open pages in a real browser; without it those tests are skipped.
# Installs nothing where it is, and never fails: it says what it could not do.
set -uo pipefail

packages="chromium fonts-dejavu-core"
line="apt-get install --no-install-recommends $packages"

if command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
  command -v google-chrome >/dev/null; then
  exit 0
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
  root=(sudo -n)
  if ! sudo -n true 2>/dev/null; then
    echo "tests in a browser will be skipped: as root, $line"
    exit 0
  fi
fi
if ! command -v apt-get >/dev/null; then
  echo "tests in a browser will be skipped: there is no apt-get; install Chromium"
  exit 0
fi
echo "installing Chromium for the tests"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
for pause in 5 20 0; do
  if "${root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update >"$log" 2>&1 &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
      install --no-install-recommends $packages >>"$log" 2>&1; then
    exit 0
  fi
  sleep "$pause"
done
tail -n 5 "$log"
echo "tests in a browser will be skipped: $line failed (above)"
exit 0
