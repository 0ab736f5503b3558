#!/bin/sh
# Makes a base for docker/Dockerfile out of Debian's own packages, for where no image can be pulled: $1 to run in, and
# $1:build with a C compiler beside it. Needs root and debootstrap. The release of Debian is $2.
set -eu
name=$1
suite=${2:-bookworm}
command -v debootstrap > /dev/null && [ "$(id -u)" = 0 ] ||
  { echo "docker/base.sh: to make $name takes root and debootstrap (Debian: apt install debootstrap)" >&2; exit 1; }

root=$(mktemp -d)
chmod 755 "$root"  # it becomes /, which everybody must be able to enter
trap 'rm -rf "$root" "$root.log"' EXIT
trap 'exit 1' INT TERM

# What is there now, but what only people read and what apt fetched.
import() {
  tar --create --directory "$root" --one-file-system --exclude './usr/share/doc/*' --exclude './usr/share/man/*' \
    --exclude './usr/share/locale/*' --exclude './var/cache/apt/*' --exclude './var/lib/apt/lists/*' . |
    docker import --change 'CMD ["python3"]' - "$1" > /dev/null
}

echo "$name: Debian $suite with its Python ..."
debootstrap --variant=minbase --include=python3 "$suite" "$root" > "$root.log" 2>&1 || { cat "$root.log"; exit 1; }
import "$name"
chroot "$root" apt-get --quiet=2 --no-install-recommends install gcc libc6-dev python3-dev python3-venv \
  > "$root.log" 2>&1 || { cat "$root.log"; exit 1; }
import "$name:build"
