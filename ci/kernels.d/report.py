"""What a kernel's JSON report says, and the table of claims by kernels that several make."""

import json
from dataclasses import dataclass

WORDS = {"passed": "pass", "failed": "FAIL", "ignored": "skip", None: "-"}


@dataclass
class Report:
    label: str
    release: str
    claims: dict  # by id, in the catalogue's order

    @staticmethod
    def read(label, release, output):
        """Raises ValueError where the output isn't a report."""
        try:
            claims = json.loads(output)["claims"]
            for claim in claims:
                if claim["outcome"] not in WORDS or not isinstance(claim["canonical"], str):
                    raise ValueError(f"claim {claim['id']} has outcome {claim['outcome']!r}")
            return Report(label, release, {claim["id"]: claim for claim in claims})
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def outcome(self, claim):
        return self.claims.get(claim, {}).get("outcome")

    def canonical(self):
        """The report without what may vary between two runs: what a snapshot holds."""
        return "".join(f"{claim['canonical'].rstrip()}\n" for claim in self.claims.values())

    def summary(self):
        outcomes = [claim["outcome"] for claim in self.claims.values()]
        counts = (f"{outcomes.count(outcome)} {outcome}" for outcome in ("passed", "failed", "ignored"))
        return f"{len(outcomes)} claims: {', '.join(counts)}"


def table(reports):
    """The whole printed text: a row per claim, a line per kernel, then every claim that isn't simply true everywhere."""
    ids = list(dict.fromkeys(claim for report in reports for claim in report.claims))
    width = max([len(claim) for claim in ids] + [5])
    lines = [" ".join(["  " + "claim".ljust(width)] + [report.label for report in reports])]
    for claim in ids:
        cells = [WORDS[report.outcome(claim)].ljust(len(report.label)) for report in reports]
        lines.append(" ".join([f"{mark(reports, claim)} {claim.ljust(width)}", *cells]).rstrip())
    if any(mark(reports, claim) != " " for claim in ids):
        lines += ["", "* the verdict differs between kernels, ~ only what was observed differs"]
    label, release = (max(len(getattr(report, part)) for report in reports) for part in ("label", "release"))
    lines += [""] + [f"{report.label:{label}}  {report.release:{release}}  {report.summary()}" for report in reports]
    for claim in ids:
        lines += notes(reports, claim)
    return "\n".join(lines) + "\n"


def mark(reports, claim):
    if len({report.outcome(claim) for report in reports}) > 1:
        return "*"
    return "~" if len({report.claims[claim]["canonical"] for report in reports}) > 1 else " "


def notes(reports, claim):
    """What to know about a claim: each different answer with the kernels that gave it."""
    answers = {}
    for report in reports:
        answers.setdefault(answer(report.claims.get(claim)), []).append(report.label)
    if len(answers) == 1 and reports[0].outcome(claim) == "passed":
        return []
    document = next(report.claims[claim] for report in reports if claim in report.claims).get("document")
    lines = ["", f"{mark(reports, claim)} {claim}" + (f" ({document})" if document else "")]
    for (outcome, *texts), labels in answers.items():
        who = "all" if len(labels) == len(reports) else ", ".join(labels)
        lines.append(f"    {outcome} on {who}")
        lines += [f"        {line}" for text in texts if text for line in text.splitlines()]
    return lines


def answer(claim):
    """What tells one kernel's answer from another's: outcome, reason, canonical text, a failure's evidence."""
    if claim is None:
        return ("not in the report",)
    evidence = claim.get("evidence") if claim["outcome"] == "failed" else None
    if evidence is not None and not isinstance(evidence, str):
        evidence = json.dumps(evidence, ensure_ascii=False)
    return (claim["outcome"], claim.get("reason"), claim["canonical"], evidence)
