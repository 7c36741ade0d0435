//! Messages of several kinds in one ring: each in an [`Envelope`], whose header says which it is and what it answers.
//!
//! A kind of message is plain data with a number: a [`RingMessage`]. A kind that is answered names the kind of its
//! answer: a [`RingRequest`]. A ring of [`Envelope<WORDS>`](Envelope) carries any of them that fit into `WORDS` words
//! of 8 bytes, and both sides take them out by their types:
//!
//! ```
//! use bytemuck::{Pod, Zeroable};
//! use cuda_std::prelude::*;
//! use cuda_std::ring::{Envelope, RingMessage, RingRequest};
//!
//! #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
//! #[repr(C)]
//! pub struct Square(pub u32);
//!
//! #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
//! #[repr(C)]
//! pub struct Root(pub f32);
//!
//! #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
//! #[repr(C)]
//! pub struct Number(pub f32);
//!
//! impl RingMessage for Square { const KIND: u32 = 1; }
//! impl RingMessage for Root { const KIND: u32 = 2; }
//! impl RingMessage for Number { const KIND: u32 = 3; }
//! impl RingRequest for Square { type Answer = Number; }
//! impl RingRequest for Root { type Answer = Number; }
//!
//! /// Answers squares and roots, and refuses messages of other kinds.
//! #[kernel(block = 32)]
//! pub fn calculator(mut requests: RingConsumer<Envelope<5>>, mut answers: RingProducer<Envelope<5>>) {
//!     let warp = Warp::current();
//!     while let Some(request) = requests.recv_warp(warp) {
//!         if answers.send_warp(warp, request.map(|request| answer(&request))).is_err() {
//!             break;
//!         }
//!     }
//! }
//!
//! fn answer(request: &Envelope<5>) -> Envelope<5> {
//!     request
//!         .answer(|Square(x)| Number((x * x) as f32))
//!         .or_else(|| request.answer(|Root(x)| Number(x.sqrt())))
//!         .unwrap_or_else(|| request.refuse())
//! }
//!
//! # fn main() {
//! let request = Envelope::request(7, &Root(9.0));
//! assert_eq!(answer(&request).open::<Number>(), Ok(Number(3.0)));
//! assert_eq!(answer(&request).correlation(), 7);
//! # }
//! ```

use bytemuck::{Pod, Zeroable};

/// A kind of message. Messages of several kinds can be in one ring, each in an [`Envelope`].
///
/// A message of no bytes is one, too: its kind says all.
pub trait RingMessage: Pod {
    /// The number of the kind, below 2^31. Of the kinds that one ring carries, each has another one.
    const KIND: u32;
}

/// A kind of message that is answered by a message of one other kind.
pub trait RingRequest: RingMessage {
    /// The kind of the answer.
    type Answer: RingMessage;
}

/// What precedes the message in an [`Envelope`]: 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MessageHeader {
    /// Which message it is, as its sender counts.
    pub id: u64,
    /// In an answer, the [`id`](Self::id) of its request; 0 in other messages.
    pub correlation: u64,
    /// [`RingMessage::KIND`], with the highest bit set in the refusal of such a message.
    pub kind: u32,
    /// Bytes of the message.
    pub bytes: u32,
}

/// Set in the kind of a refusal.
const REFUSED: u32 = 1 << 31;

/// A message of any kind that fits into `WORDS` words of 8 bytes, with its header: the message type of a ring. With
/// 5 words it fills a line of 64 bytes.
///
/// It is as large as the largest kind needs, and a larger one does not compile:
///
/// ```compile_fail,E0080
/// # use cuda_std::ring::{Envelope, RingMessage};
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Long([f32; 16]);
/// impl RingMessage for Long { const KIND: u32 = 1; }
///
/// let envelope = Envelope::<5>::new(1, &Long([0.0; 16])); // 64 bytes, and there is room for 40
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Envelope<const WORDS: usize> {
    header: MessageHeader,
    payload: [u64; WORDS],
}

// SAFETY: zero is a value of each field.
unsafe impl Zeroable for MessageHeader {}
// SAFETY: two numbers of 8 bytes and two of 4 leave no padding, and every bit pattern is a value.
unsafe impl Pod for MessageHeader {}
// SAFETY: zero is a value of both fields.
unsafe impl<const WORDS: usize> Zeroable for Envelope<WORDS> {}
// SAFETY: 24 bytes aligned to 8, followed by words of 8 bytes, leave no padding, and every bit pattern is a value.
unsafe impl<const WORDS: usize> Pod for Envelope<WORDS> {}

const _: () = {
    assert!(size_of::<MessageHeader>() == 24 && align_of::<MessageHeader>() == 8);
    assert!(size_of::<Envelope<0>>() == 24 && size_of::<Envelope<5>>() == 64);
};

impl<const WORDS: usize> Envelope<WORDS> {
    /// A message that answers none and wants no answer.
    #[inline(always)]
    pub fn new<M: RingMessage>(id: u64, message: &M) -> Self {
        Self::with_header(id, 0, message)
    }

    /// A request. [`answer`](Self::answer) and [`refuse`](Self::refuse) copy its `id`, which is not 0, into the
    /// correlation of the answer.
    #[inline(always)]
    pub fn request<R: RingRequest>(id: u64, request: &R) -> Self {
        Self::with_header(id, 0, request)
    }

    #[inline(always)]
    fn with_header<M: RingMessage>(id: u64, correlation: u64, message: &M) -> Self {
        Self::check::<M>();
        let header = MessageHeader { id, correlation, kind: M::KIND, bytes: size_of::<M>() as u32 };
        let mut envelope = Self { header, payload: [0; WORDS] };
        // SAFETY: the payload has room for the message, which `check` has compared; the words need no more alignment
        // than they have, and every pattern of bytes is a value of theirs.
        unsafe { envelope.payload.as_mut_ptr().cast::<M>().write_unaligned(*message) };
        envelope
    }

    /// Compares the sizes when the program is compiled.
    #[inline(always)]
    fn check<M: RingMessage>() {
        const {
            assert!(size_of::<M>() <= 8 * WORDS, "the message is larger than the envelope's words");
            assert!(M::KIND < REFUSED, "the number of a kind of message is below 2^31");
        }
    }

    /// What precedes the message.
    #[inline(always)]
    pub fn header(&self) -> &MessageHeader {
        &self.header
    }

    /// Which message it is, as its sender counts.
    #[inline(always)]
    pub fn id(&self) -> u64 {
        self.header.id
    }

    /// In an answer, the [`id`](Self::id) of its request; 0 in other messages.
    #[inline(always)]
    pub fn correlation(&self) -> u64 {
        self.header.correlation
    }

    /// Whether it holds an `M`, which [`open`](Self::open) would return.
    #[inline(always)]
    pub fn is<M: RingMessage>(&self) -> bool {
        self.header.kind == M::KIND && self.header.bytes == size_of::<M>() as u32
    }

    /// The message.
    ///
    /// # Errors
    /// [`MessageError`], if it is not an `M`.
    #[inline(always)]
    pub fn open<M: RingMessage>(&self) -> Result<M, MessageError> {
        Self::check::<M>();
        if self.is::<M>() {
            // SAFETY: the payload has at least as many bytes as an `M`, which `check` has compared, and every pattern
            // of bytes is an `M`.
            return Ok(unsafe { self.payload.as_ptr().cast::<M>().read_unaligned() });
        }
        Err(self.why_not::<M>())
    }

    fn why_not<M: RingMessage>(&self) -> MessageError {
        let MessageHeader { kind, bytes, .. } = self.header;
        match kind {
            _ if kind & REFUSED != 0 => MessageError::Refused { kind: kind & !REFUSED },
            _ if kind == M::KIND => {
                MessageError::OtherSize { kind, expected: size_of::<M>() as u32, found: bytes }
            }
            _ => MessageError::OtherKind { expected: M::KIND, found: kind },
        }
    }

    /// The answer to this request, made by `answer`, if it is an `R`.
    #[inline(always)]
    pub fn answer<R: RingRequest>(&self, answer: impl FnOnce(R) -> R::Answer) -> Option<Self> {
        let request = self.open::<R>().ok()?;
        Some(Self::with_header(self.header.id, self.header.id, &answer(request)))
    }

    /// `message` in place of this one, with the same id and correlation: for a kernel that does a part of the work, and
    /// sends the rest of it to the next kernel, which answers.
    #[inline(always)]
    #[must_use]
    pub fn replace<M: RingMessage>(&self, message: &M) -> Self {
        Self::with_header(self.header.id, self.header.correlation, message)
    }

    /// The answer to a message of a kind that the receiver does not know. On the host [`open`](Self::open) returns
    /// [`MessageError::Refused`] for it.
    #[inline(always)]
    #[must_use]
    pub fn refuse(&self) -> Self {
        let MessageHeader { id, kind, .. } = self.header;
        let header = MessageHeader { id, correlation: id, kind: kind | REFUSED, bytes: 0 };
        Self { header, payload: [0; WORDS] }
    }
}

/// Why an [`Envelope`] does not hold a message of the type asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// It holds a message of another kind.
    OtherKind {
        /// The number of the kind asked for.
        expected: u32,
        /// The number of the kind found.
        found: u32,
    },
    /// It holds a message with the number of this kind, and another size: two types have one number, or the two sides
    /// were built from different sources.
    OtherSize {
        /// The number of the kind.
        kind: u32,
        /// Bytes of the type asked for.
        expected: u32,
        /// Bytes of the message found.
        found: u32,
    },
    /// It is the refusal of a request: the receiver does not know its kind.
    Refused {
        /// The number of the request's kind.
        kind: u32,
    },
}

impl core::fmt::Display for MessageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OtherKind { expected, found } => {
                write!(f, "the message is of kind {found}, and kind {expected} was expected")
            }
            Self::OtherSize { kind, expected, found } => write!(
                f,
                "a message of kind {kind} has {found} bytes for its sender and {expected} for its receiver: two types \
                 have this kind, or one side was not built again"
            ),
            Self::Refused { kind } => {
                write!(f, "the receiver refused a message of kind {kind}, which it does not know")
            }
        }
    }
}

impl core::error::Error for MessageError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    #[repr(C)]
    struct Ask([u32; 3]);
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    #[repr(C)]
    struct Tell(u8);
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    #[repr(C)]
    struct Stop;
    /// The number of `Ask`, and another size.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    #[repr(C)]
    struct Changed([u32; 4]);

    impl RingMessage for Ask {
        const KIND: u32 = 1;
    }
    impl RingRequest for Ask {
        type Answer = Tell;
    }
    impl RingMessage for Tell {
        const KIND: u32 = 2;
    }
    impl RingMessage for Stop {
        const KIND: u32 = 0;
    }
    impl RingMessage for Changed {
        const KIND: u32 = 1;
    }

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let ask = Envelope::<2>::request(9, &Ask([1, u32::MAX, 3]));
        assert_eq!(ask.open(), Ok(Ask([1, u32::MAX, 3])));
        assert_eq!((ask.id(), ask.correlation(), ask.header().bytes), (9, 0, 12));
        let stop = Envelope::<0>::new(u64::MAX, &Stop);
        assert_eq!((stop.open(), stop.id()), (Ok(Stop), u64::MAX));
        // A ring copies bytes.
        let copied: Envelope<2> = *bytemuck::from_bytes(bytemuck::bytes_of(&ask));
        assert!(copied == ask && copied.is::<Ask>() && !copied.is::<Stop>());
    }

    #[test]
    fn an_answer_carries_the_id_of_its_request() {
        let ask = Envelope::<2>::request(9, &Ask([7, 0, 0]));
        let answer = ask.answer(|Ask([x, ..])| Tell(x as u8)).unwrap();
        assert_eq!((answer.open(), answer.correlation()), (Ok(Tell(7)), 9));
        assert_eq!(Envelope::<2>::new(9, &Stop).answer(|Ask(_)| Tell(0)), None);
        let passed_on = ask.replace(&Stop);
        assert_eq!((passed_on.open(), passed_on.id(), passed_on.correlation()), (Ok(Stop), 9, 0));
    }

    #[test]
    fn another_message_is_an_error_that_says_which() {
        let ask = Envelope::<2>::request(9, &Ask([0; 3]));
        let other = MessageError::OtherKind { expected: 2, found: 1 };
        assert_eq!(ask.open::<Tell>(), Err(other));
        let size = MessageError::OtherSize { kind: 1, expected: 16, found: 12 };
        assert_eq!(ask.open::<Changed>(), Err(size));
        let refusal = ask.refuse();
        assert_eq!(refusal.open::<Tell>(), Err(MessageError::Refused { kind: 1 }));
        assert_eq!((refusal.correlation(), refusal.is::<Ask>()), (9, false));
        for (error, words) in
            [(other, "kind 1, and kind 2"), (size, "12 bytes for its sender and 16")]
        {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
