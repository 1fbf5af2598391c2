//! What parses, what does not, and what the errors say.

use super::*;

fn exchange(text: &str) -> Exchange {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    text.parse::<Exchange>().expect_err(text).to_string()
}

#[test]
fn every_step_parses_and_prints_as_it_was_written() {
    for text in [
        "C: W10 W10 R20 / S: R20 W20",
        "C: M10 W10 R20 / S: R20 W20",
        "C: V10+10 R20 / S: R20 W20",
        "C: V0+40+0+20 E400 Z5 Z2+3 F60+40 F9 / S: R539",
        "C: W10 P5 P250us nodelay nodelay=0 cork uncork quickack quickack=0 quickack=2 shutdown / S: R10",
        "C: bound[quickack=0] [nodelay mss=1000] W10 R20 / S: bound[cork] listening[quickack=0] [mss=1000] R10 W20",
        "C: W30×10 (W1 P5)×20 (W1×2 R1)×3 (W1×2)×3 / S:",
        "C: [delack-max=20000 rto-min=5000 rcvlowat=2 sndbuf=4096 rcvbuf=4096 notsent-lowat=1 defer-accept=1] / S:",
        "C: [nodelay] W75 R83 / relay: C[nodelay] S[cork] / S: [nodelay] R75 W79 P1 W4",
        "C: W75 R83 / relay: / S: R75 W83",
    ] {
        let parsed = exchange(text);
        assert_eq!(exchange(&parsed.to_string()), parsed, "{text}");
        assert_eq!(parsed.to_string(), text);
    }
}

#[test]
fn the_forms_that_people_type_mean_the_same() {
    assert_eq!(exchange("c:W10x3 R20 /s:R30 W20"), exchange("C: W10×3 R20 / S: R30 W20"));
    assert_eq!(exchange("C: W10*3 P5ms cork=0/S: R30"), exchange("C: W10×3 P5 uncork / S: R30"));
}

#[test]
fn repetitions_count_in_bytes_and_steps() {
    let exchange = exchange("C: (W10 R5)×3 / S: R10");
    assert_eq!((exchange.client.written(), exchange.client.read()), (30, 15));
    assert_eq!(exchange.client.unrolled().len(), 6);
}

#[test]
fn errors_name_the_column_what_was_met_and_what_to_write() {
    let cases = [
        ("", "column 1: met the end, expected C: (an exchange starts with the client, as in C: W10 R20 / S: R10 W20)"),
        ("S: R20", "column 1: met \"S:\", expected C:"),
        ("C: W10", "column 7: met the end, expected a step"),
        ("C: W10 / S: R10×\t", "column 17: met the end, expected a number"),
        ("C: w10 / S: R10", "column 4: met \"w10\", expected a step"),
        ("C: w10 / S: R10", "(steps are written with a capital letter, such as W10)"),
        ("C: W 10 / S: R10", "(the number follows the letter without a space, such as W10)"),
        ("C: W10 X / S: R10", "column 8: met \"X\""),
        ("C: W10Z / S: R10", "column 7: met \"Z\", expected a space"),
        ("C: R0 / S: R10", "column 4: met \"R0\", expected a read of at least one byte"),
        ("C: W10 mss=5 / S: R10", "column 8: met \"mss=5\", expected an option that can change later"),
        ("C: [mss] W1 / S: R1", "column 8: met \"]\", expected = and a number"),
        ("C: [nodelay W10 / S: R10", "column 13: met \"W10\", expected an option or ]"),
        (
            "C: (W10 / S: R10",
            "expected a step (W, M, E, V, Z, F, R, P with a number, an option such as nodelay, or shutdown) or )",
        ),
        ("C: (W10) / S: R10", "expected × and a number"),
        ("C: ()x2 / S: R10", "expected a group with at least one step"),
        ("C: W99999999999 / S: R1", "expected at most 16777216 bytes"),
        ("C: P99999 / S: R1", "expected a pause of at most 60 s"),
        ("C: (W1×1000)×1000 / S: R1", "expected at most 200000 steps a request"),
        ("C: listening[cork] W1 / S: R1", "only a server listens"),
        ("C: W1 R1 / S: R1 W1 / X: W1", "column 21: met \"/\""),
        ("C: TCP_NODELAY W1 / S: R1", "options are written without TCP_"),
        ("C: W10 ×3 / S: R30", "column 8: met \"×3\", expected a step"),
        ("C: (((((W1)×2)×2)×2)×2)×2 / S: R1", "groups at most 4 deep"),
    ];
    for (text, wanted) in cases {
        let error = error(text);
        assert!(error.contains(wanted), "{text}\n  gave   {error}\n  wanted {wanted}");
    }
}
