//! What a program may set for a stream.

use super::attributes::STREAM_PRIORITIES;
use super::invalid;
use super::launch_attributes::{
    ACCESS_WINDOW, DOMAIN, DOMAIN_MAP, PRIORITY, SYNC_POLICY, check_domains, check_window,
};
use crate::detail::Answer;
use crate::structs::AttributeValue;

/// The attributes of a stream. All are hints, which the emulator checks and returns; see
/// `launch_attributes.rs`.
#[derive(Clone)]
pub(super) struct StreamSettings {
    pub(super) priority: i32,
    window: AttributeValue,
    /// How a waiting host thread waits: 1 as the driver likes, 2 spinning, 3 yielding, 4 blocking.
    sync_policy: u32,
    domain_map: u32,
    domain: u32,
}

impl StreamSettings {
    pub(super) fn new(priority: i32) -> Self {
        // The second logical domain is the device's second.
        Self { priority, window: [0; 16], sync_policy: 1, domain_map: 0x0100, domain: 0 }
    }

    pub(super) fn get(&self, id: i32) -> Answer<AttributeValue> {
        let mut value = [0; 16];
        match u32::try_from(id).unwrap_or(u32::MAX) {
            ACCESS_WINDOW => value = self.window,
            SYNC_POLICY => value[0] = self.sync_policy,
            PRIORITY => value[0] = self.priority as u32,
            DOMAIN_MAP => value[0] = self.domain_map,
            DOMAIN => value[0] = self.domain,
            _ => return Err(invalid(format!("{id} is no attribute of a stream"))),
        }
        Ok(value)
    }

    pub(super) fn set(&mut self, id: i32, value: &AttributeValue) -> Answer {
        let wrong = || invalid(format!("{:#x} is no value of attribute {id}", value[0]));
        match u32::try_from(id).unwrap_or(u32::MAX) {
            ACCESS_WINDOW => {
                check_window(value)?;
                self.window = *value;
            }
            SYNC_POLICY if (1..=4).contains(&value[0]) => self.sync_policy = value[0],
            PRIORITY => {
                self.priority = (value[0] as i32).clamp(STREAM_PRIORITIES.1, STREAM_PRIORITIES.0)
            }
            DOMAIN_MAP if check_domains(value) => self.domain_map = value[0] & 0xffff,
            DOMAIN if value[0] <= 1 => self.domain = value[0],
            SYNC_POLICY | DOMAIN_MAP | DOMAIN => return Err(wrong()),
            _ => return Err(invalid(format!("{id} is no attribute of a stream"))),
        }
        Ok(())
    }
}
