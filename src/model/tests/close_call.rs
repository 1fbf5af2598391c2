//! What a tick decides.

use super::*;

/// The reply comes 52 ticks after the one before it, and the client's timeout is 51.
const HELD: &str = "C: W10 R20 / S: [cork] R10 W20";
/// So many, and the quick ACKs that a connection begins with are spent.
const REQUESTS: u32 = 24;

fn deciding(calls: &[bool]) -> Prediction {
    predict_deciding(&exchange(HELD), &Facts::default(), Rules::all(), REQUESTS, calls).expect("predictable")
}

#[test]
fn what_a_hold_lets_go_is_a_close_call_and_grants_quick_acks_or_not() {
    let never = deciding(&[false; 2 * REQUESTS as usize]);
    assert!(never.close_calls.iter().all(|call| !call.longer));
    let (last, call) = never.close_calls.iter().enumerate().next_back().expect("a close call");
    let once = deciding(&[&vec![false; last][..], &[true]].concat());
    assert_eq!(once.close_calls[last], CloseCall { longer: true, turned: !call.turned, ..*call });
    let request = call.request as usize;
    assert_eq!(never.requests[..request], once.requests[..request]);
    let quick_acks = [&never, &once].map(|prediction| prediction.requests[request].quick_acks[Socket::Client]);
    assert!(quick_acks[0] == 0 && quick_acks[1] > 0, "{quick_acks:?}");
}

#[test]
fn a_stall_is_no_close_call() {
    let stalled = predict(&exchange("C: W10 W10 R20 / S: R20 W20"), &Facts::default(), 6).expect("predictable");
    assert_eq!(stalled.close_calls, []);
}
