#!/bin/sh
# Run the tests as on another machine: no network, an empty home directory, another locale, time zone and umask.
#
#   [CORES=N] [LOAD=N] tests/reliability/other_machine.sh PYTHON [arguments of pytest]
#
# pytest gets its own Linux namespaces for the network (its loopback works) and for mounts (its home is an empty
# read-only file system). That needs root, or the right to create user namespaces; without them this fails, because an
# incomplete test could be mistaken for a complete one. LOAD is a number of processes that only compute beside it.
set -eu
python=$1
shift
# Where i is not the small I, bytes are not UTF-8, and a number's point is a comma.
for locale in tr_TR.ISO-8859-9 de_DE.ISO-8859-1 C; do
  LC_ALL=$locale "$python" -c 'import locale; locale.setlocale(locale.LC_ALL, "")' 2> /dev/null && break
done
if [ -n "${CORES:-}" ]; then taskset --pid --cpu-list "0-$((CORES - 1))" $$ > /dev/null; fi
home=$(mktemp --directory)
busy=
trap 'rmdir "$home"; [ -z "$busy" ] || kill $busy' EXIT
for _ in $(seq "${LOAD:-0}"); do
  "$python" -S -c 'while True: pass' &
  busy="$busy $!"
done
echo "$python: LC_ALL=$locale, $(nproc) cores, load ${LOAD:-0}"
umask 077
# Of the variables, only the PATH and those of the tests remain. Python must not replace the locale by UTF-8.
unshare $([ "$(id -u)" = 0 ] || echo --map-root-user) --net --mount env -i PATH="$PATH" HOME="$home" LC_ALL="$locale" \
  TZ=Asia/Kathmandu PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $(env | grep '^PYBATSCHED_' || true) \
  sh -c 'ip link set lo up && mount -t tmpfs -o ro,size=4k none "$HOME" && exec "$@"' sh "$python" -m pytest "$@"
