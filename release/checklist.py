"""Print what a person still has to do for a release, after `make release`."""

from __future__ import annotations

import pybatsched

VERSION = pybatsched.__version__

print(
    f"""
make release: all checks that a program can do have passed. What is left for a person:

 1. Read CHANGELOG.md, docs/stability.md and README.md. Set the date of {VERSION} in CHANGELOG.md and CITATION.cff.
 2. Look at build/site in a browser, and at the paper (docs/paper).
 3. Wheels that are called linux_* and not manylinux_* cannot be uploaded: build them with cibuildwheel and Docker.
    Run the tests of the wheels for aarch64 on such a machine.
 4. git tag -s v{VERSION} && git push origin v{VERSION}
 5. Upload dist/pybatsched-{VERSION}* and build/wheels/* to PyPI, from an account with a second factor; then
    pip install pybatsched=={VERSION} in an empty environment, and the first simulation of README.md.
 6. Attach dist/SHA256SUMS and dist/sbom.json to the release on the forge.
 7. Archive the tag (Zenodo), and write its DOI into CITATION.cff, codemeta.json and README.md.
 8. Announce it: the mailing list of Batsim, the users of the studies, JOSS if the paper is to be submitted.
"""
)
