//! Placeholder until the room lands.
