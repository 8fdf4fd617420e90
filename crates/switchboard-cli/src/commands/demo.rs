pub(crate) async fn run(
    _: &crate::context::Context,
    _: &mut crate::signals::Signals,
) -> Result<crate::failure::Exit, crate::failure::Failure> {
    Ok(crate::failure::Exit::Ok)
}
