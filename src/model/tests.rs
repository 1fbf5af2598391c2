//! Tests of the model.

use super::*;

mod examples;
