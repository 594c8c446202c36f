//! A hand-written pool over `flume`.

use super::channel_pool::channel_pool_over;

channel_pool_over!(Flume, FlumeChannel, flume);
