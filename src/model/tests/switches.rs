//! Each rule taken out: an exchange on which that is seen. What the full model says of these exchanges was also
//! seen on a kernel.

use super::*;

/// Everything that a kernel shows of a request, less the quick ACKs.
fn figures(exchange: &Exchange, facts: &Facts, rules: Rules) -> Vec<Request> {
    let prediction = predict_with(exchange, facts, rules, 6).expect("predictable");
    let without_credits = |request: Request| Request { quick_acks: Default::default(), ..request };
    prediction.requests.into_iter().map(without_credits).collect()
}

#[test]
fn every_rule_can_be_seen() {
    let pinned = Facts::default();
    let own = Facts::loopback(None);
    for (rule, facts, text) in [
        (Rule::Minshall, &pinned, "C: W536 R1030 / S: R536 W988 W42"),
        (Rule::AckOnRead, &pinned, "C: W34 W12 R2 / S: quickack R46 W2"),
        (Rule::Pushed2, &pinned, "C: W4 R55 / S: [nodelay] R4 W8 W6 M41"),
        (Rule::TimerLeavesPingpong, &pinned, "C: W6 W8 R1 / S: R14 W1"),
        (Rule::Backlog, &pinned, "C: W8000 W537 R44 / S: R8537 W44"),
        (Rule::RcvMssEstimate, &pinned, "C: W2 R2961 / S: R1 R1 W987 W1974"),
        (Rule::LastSegSize, &pinned, "C: W49 R3950 / S: R49 W987 W2963"),
        (Rule::AckAboveRcvMss, &pinned, "C: W986 R2965 / S: R986 M2965"),
        (Rule::WindowGrowth, &pinned, "C: W41 R1524 / S: R41 W535 W989"),
        (Rule::GrowthCredit, &pinned, "C: W48 quickack R1202 / S: R48 W987 W107 W108"),
        (Rule::CreditFormula, &own, "C: W1 R65611 / S: R1 W65484 W127"),
        (Rule::Truesize, &pinned, "C: W41 R1524 / S: R41 W535 W989"),
        (Rule::Coalescing, &pinned, "C: M1978 M3000 R536 / S: R4978 W536"),
        (Rule::BacklogBytes, &pinned, "C: W987 R5023 / S: R987 W3000 W49 W1974"),
        (Rule::Cwnd, &pinned, "C: W34 R11029 / S: R34 M8000 W3000 W29"),
        (Rule::SendBuffer, &own, "C: [nodelay sndbuf=1] W3776 W1 R1 / S: R3777 W1"),
        (Rule::HeaderPrediction, &pinned, "C: M1 R2 / S: W2 R1"),
        (Rule::ForwardAlloc, &pinned, "C: M1 R2000 / S: M2000 R1"),
        (Rule::MssFollowsWindow, &own, "C: W9 R32769 / S: R9 W32769"),
        (Rule::RoundTrip, &pinned, "C: W20 W17 W6 M30 R59 / S: R73 W25 W14 quickack W13 W7"),
    ] {
        let exchange = exchange(text);
        let full = figures(&exchange, facts, Rules::all());
        assert_ne!(figures(&exchange, facts, Rules::all().without(rule)), full, "{rule}: {text}");
    }
}

#[test]
fn a_rule_taken_out_is_the_only_one() {
    for rule in Rule::ALL {
        let rules = Rules::all().without(rule);
        assert!(Rule::ALL.into_iter().all(|other| rules.has(other) == (other != rule)));
    }
}
