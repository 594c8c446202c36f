//! A hand-written pool over `kanal`.

use super::channel_pool::channel_pool_over;

channel_pool_over!(Kanal, KanalChannel, kanal);
