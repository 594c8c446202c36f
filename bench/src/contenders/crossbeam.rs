//! A hand-written pool over `crossbeam-channel`.

use super::channel_pool::channel_pool_over;

channel_pool_over!(Crossbeam, CrossbeamChannel, crossbeam_channel);
