"""Known vulnerabilities of every package that a lock file names: python -m tests.project.audit

Asks as pip-audit does (PyPI's advisories). The exit code is 1 if there is a vulnerability, and 2 if packages could not
be looked up and so are unknown. AUDIT_OFFLINE=allow makes it 0 if not even one could be looked up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.support import ROOT


def verdict(documents: dict[str, dict[str, Any]], offline: bool) -> tuple[int, list[str]]:
    """The exit code, and what is to be told, for what pip-audit says of each lock file."""
    asked, unknown, lines = set(), set(), []
    for lock, document in documents.items():
        for package in document["dependencies"]:
            name = f"{package['name']} {package.get('version', '')}".strip()
            if "skip_reason" in package:
                unknown.add(package["name"])
                continue
            asked.add(package["name"])
            for each in package["vulns"]:
                fixed = ", ".join(each["fix_versions"]) or "no release yet"
                lines.append(f"audit: {lock}: {name}: {each['id']} (mended in: {fixed})")
    unknown -= asked
    if lines:
        return 1, lines
    if unknown:
        lines.append(
            f"audit: {len(unknown)} of {len(asked | unknown)} packages could not be looked up: nothing is known"
        )
        return (0 if offline and not asked else 2), lines
    return 0, [f"audit: no known vulnerability in {len(asked)} packages of {len(documents)} lock files"]


def main() -> int:
    """Look up all lock files."""
    documents = {}
    for lock in sorted(ROOT.glob("requirements*.lock")):
        command = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--disable-pip", "--require-hashes",
                   "--format", "json", "--requirement", str(lock)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            documents[lock.name] = json.loads(done.stdout)
        except ValueError:
            print(f"audit: {lock.name}: {done.stderr.strip() or done.returncode}", file=sys.stderr)
            return 0 if os.environ.get("AUDIT_OFFLINE") == "allow" and "onnection" in done.stderr else 2
    code, lines = verdict(documents, os.environ.get("AUDIT_OFFLINE") == "allow")
    print("\n".join(lines), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
