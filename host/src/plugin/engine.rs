//! stub
/// e
#[derive(Clone)] pub struct Engine; impl Engine { /// n
 pub fn new() -> anyhow::Result<Self> { Ok(Self) } }
