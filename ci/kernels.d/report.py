"""What a kernel's JSON report says, and the table of claims by kernels that several make."""

import json
from dataclasses import dataclass

WORDS = {"passed": "pass", "failed": "FAIL", "ignored": "skip", None: "-"}


@dataclass
class Report:
    label: str
    release: str
    claims: dict  # by id, in the catalogue's order
    facts: dict  # of the kernel, as probed

    @staticmethod
    def read(label, release, output):
        """Raises ValueError where the output isn't a report."""
        try:
            report = json.loads(output)
            claims = report["claims"]
            for claim in claims:
                if claim["outcome"] not in WORDS or not isinstance(claim["canonical"], str):
                    raise ValueError(f"claim {claim['id']} has outcome {claim['outcome']!r}")
            return Report(label, release, {claim["id"]: claim for claim in claims}, report["kernel"])
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
    """The whole printed text: a row per claim, a line per kernel, what it is known for, then every claim that isn't simply
    true everywhere."""
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
    lines += facts(reports) + skipped(reports, ids)
    for claim in ids:
        lines += notes(reports, claim)
    return "\n".join(lines) + "\n"


def mark(reports, claim):
    if len({report.outcome(claim) for report in reports}) > 1:
        return "*"
    return "~" if len({report.claims[claim]["canonical"] for report in reports}) > 1 else " "


def facts(reports):
    """What was probed and isn't the same everywhere: where differing verdicts come from."""
    plain = [{name: fact for name, fact in report.facts.items() if not isinstance(fact, dict)} for report in reports]
    names = dict.fromkeys(name for report in plain for name in report if name != "release")
    lines = []
    for name in names:
        values = {}
        for report in reports:
            values.setdefault(json.dumps(report.facts.get(name)), []).append(report.label)
        if len(values) > 1:
            said = (f"{'none' if value == 'null' else value} on {', '.join(labels)}" for value, labels in values.items())
            lines.append(f"    {name}: {'; '.join(said)}")
    return ["", "probed facts that differ", *lines] if lines else []


def skipped(reports, ids):
    """Why claims were ignored, each reason once."""
    reasons = {}
    for claim in ids:
        labels = tuple(report.label for report in reports if report.outcome(claim) == "ignored")
        if labels:
            reason = next(report.claims[claim]["reason"] for report in reports if report.label == labels[0])
            reasons.setdefault((labels, reason), []).append(claim)
    lines = []
    for (labels, reason), claims in reasons.items():
        lines += [f"    {reason}", f"        on {', '.join(labels)}: {', '.join(claims)}"]
    return ["", "ignored", *lines] if lines else []


def notes(reports, claim):
    """What to know about a claim: each different answer of the kernels that decided it."""
    answers = {}
    for report in reports:
        if report.outcome(claim) != "ignored":
            answers.setdefault(answer(report.claims.get(claim)), []).append(report.label)
    if len(answers) < 2 and all(outcome == "passed" for outcome, *_ in answers):
        return []
    document = next(report.claims[claim] for report in reports if claim in report.claims).get("document")
    lines = ["", f"{mark(reports, claim)} {claim}" + (f" ({document})" if document else "")]
    for (_, text), labels in answers.items():
        lines += [f"    on {', '.join(labels)}", *(f"        {line}" for line in text.splitlines())]
    return lines


def answer(claim):
    """What tells one kernel's answer from another's."""
    if claim is None:
        return (None, "not in the report")
    said = claim["canonical"].partition(": ")[2]
    return (claim["outcome"], f"{said}\n{claim['reason']}" if claim["outcome"] == "failed" else said)
