#!/usr/bin/env bash
# Slurm and munge, for tests that start a Slurm of their own; without them those tests are skipped.
# Installs nothing where they are, and never fails: it says what it could not do.
set -uo pipefail

PATH="$PATH:/usr/sbin:/sbin"
line="apt-get install --no-install-recommends slurm-wlm munge"

if command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null; then
  exit 0
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
  root=(sudo -n)
  if ! sudo -n true 2>/dev/null; then
    echo "tests on Slurm will be skipped: as root, $line"
    exit 0
  fi
fi
if ! command -v apt-get >/dev/null; then
  echo "tests on Slurm will be skipped: there is no apt-get; install slurmctld, slurmd and munged"
  exit 0
fi
echo "installing Slurm and munge for the tests (no service is started or needed)"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
for pause in 5 20 0; do
  if "${root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update >"$log" 2>&1 &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
      apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
      install --no-install-recommends slurm-wlm munge >>"$log" 2>&1; then
    exit 0
  fi
  sleep "$pause"
done
tail -n 5 "$log"
echo "tests on Slurm will be skipped: $line failed (above)"
exit 0
