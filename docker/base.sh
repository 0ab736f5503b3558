#!/bin/sh
# Creates base images for docker/Dockerfile from Debian packages, if no image can be pulled: $1, and $1:build with a C
# compiler. Needs root and debootstrap. $2 is the release of Debian.
set -eu
name=$1
suite=${2:-bookworm}
command -v debootstrap > /dev/null && [ "$(id -u)" = 0 ] ||
  { echo "docker/base.sh: creating $name needs root and debootstrap (Debian: apt install debootstrap)" >&2; exit 1; }

root=$(mktemp -d)
chmod 755 "$root"  # it becomes /, which all users must be able to enter
trap 'rm -rf "$root" "$root.log"' EXIT
trap 'exit 1' INT TERM

# Import the present content without documentation and the files of apt.
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
