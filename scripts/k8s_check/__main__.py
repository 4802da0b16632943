"""`python -m scripts.k8s_check`: exit status 1 where any overlay has a fault."""

import sys
from pathlib import Path

from scripts.k8s_check.check import RULES, faults
from scripts.k8s_check.render import RenderError, overlays, render

ROOT = Path(__file__).resolve().parent.parent.parent


def main(root: Path = ROOT) -> int:
    """Prints a line an overlay, and one a fault."""
    num_faults = 0
    for folder in overlays(root):
        try:
            manifests = render(folder)
        except RenderError as error:
            print(f"{folder.name}: {error}")
            num_faults += 1
            continue
        found = faults(manifests, root)
        print(f"{folder.name}: {len(manifests)} manifests, {len(RULES)} rules, {len(found)} faults")
        print("".join(f"  {fault}\n" for fault in found), end="")
        num_faults += len(found)
    return min(num_faults, 1)


if __name__ == "__main__":
    sys.exit(main())
