"""Build a release twice, in two different directories, and keep it if both builds are identical.

    python release/build.py [--into dist] [--compiled]

The build uses only the last commit and the pinned tools of this environment. Archives do not depend on the machine:
times are those of the commit (SOURCE_DATE_EPOCH), files have no owner, are readable by all, and are sorted by name. The
second build has another directory, locale, time zone, umask, hash seed and other file times. Writes the sdist, the
wheel, sbom.json and SHA256SUMS.

Exit code 1 if the two builds differ: then the differing files are listed, and nothing is kept.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import bill

ROOT: Final = Path(__file__).parent.parent
FIRST: Final = {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"}
SECOND: Final = {"LC_ALL": "C.UTF-8", "TZ": "Pacific/Auckland", "PYTHONHASHSEED": "2"}
#: The age of the files in the second build, relative to the commit.
_OLDER_S: Final = 123_456


def git(*args: str, cwd: Path = ROOT) -> bytes:
    """Run git and return its output."""
    return subprocess.run(["git", *args], cwd=cwd, capture_output=True, check=True).stdout


def exported(commit: str, place: Path, files_at: int) -> None:
    """Export a commit into a directory, with the file time `files_at`."""
    place.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as archive:
        archive.extractall(place, filter="data")
    for path in place.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (files_at, files_at))


def build(place: Path, epoch: int, variables: dict[str, str], umask: int, *, compiled: bool) -> Path:
    """Build in a directory with the exported commit; return the directory of the archives."""
    into = place.with_name(f"{place.name}.made")
    kinds = ["--wheel"] if compiled else ["--sdist", "--wheel"]
    more = {"PYBATSCHED_COMPILE": "0"}
    if compiled:  # compilers write the source directory into their output
        more = {"PYBATSCHED_COMPILE": "1", "CFLAGS": f"-ffile-prefix-map={place}=. -g0"}
    before = os.umask(umask)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(into), str(place)],
            env={**os.environ, **variables, **more, "SOURCE_DATE_EPOCH": str(epoch)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.umask(before)
    if done.returncode:
        raise SystemExit(f"the build failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    for path in into.iterdir():
        raw = path.read_bytes()
        path.write_bytes(settled_wheel(raw) if path.suffix == ".whl" else settled_sdist(raw, epoch))
    return into


def settled_sdist(raw: bytes, epoch: int) -> bytes:
    """Return an archive with the same files, sorted by name, with one time and without owner."""
    text = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as old,
        tarfile.open(fileobj=text, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            kept = tarfile.TarInfo(member.name)
            kept.type, kept.linkname, kept.size, kept.mtime = member.type, member.linkname, member.size, epoch
            kept.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(kept, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(text.getvalue(), mtime=epoch)


def settled_wheel(raw: bytes) -> bytes:
    """Return a wheel with the same files and times, readable by all for any umask."""
    text = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(text, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            kept = zipfile.ZipInfo(member.filename, member.date_time)
            mode = 0o100755 if (member.external_attr >> 16) & 0o100 else 0o100644
            kept.external_attr, kept.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            new.writestr(kept, old.read(member))
    return text.getvalue()


def digests(place: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a directory, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(place.iterdir())}


def members(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in an archive, by name."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    found = {}
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member) if member.isfile() else None
            found[member.name] = "" if file is None else hashlib.sha256(file.read()).hexdigest()
    return found


def differences(first: Path, second: Path) -> list[str]:
    """Return the names of the files that differ between the archives of two directories."""
    ours, theirs = digests(first), digests(second)
    found = []
    for name in sorted({*ours, *theirs}):
        if ours.get(name) == theirs.get(name):
            continue
        found.append(name)
        if name in ours and name in theirs:
            left, right = members(first / name), members(second / name)
            found += [f"  {one}" for one in sorted({*left, *right}) if left.get(one) != right.get(one)]
    return found


def main() -> int:
    """Build, compare and keep; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    parser.add_argument("--compiled", action="store_true", help="the wheel with the parts in C instead")
    args = parser.parse_args()
    if git("status", "--porcelain"):
        print("release: uncommitted changes are not in the release", file=sys.stderr)
    commit = git("rev-parse", "HEAD").decode().strip()  # once: there may be a new commit during the build
    epoch = int(git("log", "-1", "--format=%ct", commit))
    with tempfile.TemporaryDirectory() as scratch:
        places = Path(scratch) / "a", Path(scratch) / "another" / "directory"
        made = []
        for place, variables, umask, files_at in zip(
            places, (FIRST, SECOND), (0o022, 0o077), (epoch, epoch - _OLDER_S), strict=True
        ):
            exported(commit, place, files_at)
            made.append(build(place, epoch, variables, umask, compiled=args.compiled))
        found = differences(*made)
        if found:
            print("release: two builds of one commit differ in\n" + "\n".join(found), file=sys.stderr)
            return 1
        version = tomllib.loads((places[0] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        pins = bill.bill(places[0] / "constraints.txt", has_foreign=False)  # those of the commit
        args.into.mkdir(parents=True, exist_ok=True)
        for path in made[0].iterdir():
            shutil.copyfile(path, args.into / path.name)
        names = [path.name for path in made[0].iterdir()]
    (args.into / "sbom.json").write_text(bill.sbom(pins, version), encoding="utf-8")
    sums = {name: digest for name, digest in digests(args.into).items() if name in {*names, "sbom.json"}}
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    (args.into / "SHA256SUMS").write_text(text, encoding="utf-8")
    print(f"the same bytes twice, of the commit {commit[:7]}:\n{text}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
