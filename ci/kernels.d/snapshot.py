"""The canonical reports under version control: one per kernel, so that a change of any shows in review."""

import difflib

SHOWN = 30  # lines of a difference


def check(report, folder, update, required):
    """Compares with the stored report or, if so asked, replaces it. Gives (whether it's as stored, lines to print)."""
    path = folder / f"{report.label}.txt"
    new = report.canonical()
    old = path.read_text() if path.exists() else None
    if old == new:
        return True, []
    if update:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(new)
        return True, [f"{path.name}: written"]
    if old is None:
        return not required, [f"{path.name}: no such snapshot yet (--update writes it)"]
    difference = list(difflib.unified_diff(old.splitlines(), new.splitlines(), "snapshot", report.release, "", "", 0, ""))
    lines = [f"{path.name}: differs from the snapshot (--update accepts it)", *(f"    {line}" for line in difference[:SHOWN])]
    if len(difference) > SHOWN:
        lines.append(f"    ... and {len(difference) - SHOWN} lines more")
    return False, lines
