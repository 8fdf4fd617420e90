//! Serves the connections of a scripted model.

use std::sync::Arc;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::ModelState;
use super::request::ModelRequest;
use super::turn::{self, Block, Turn};
use crate::http::{CannedResponse, ConnectionCut, ReceivedRequest, Receiver, Sender};

/// What becomes of a connection after an answer.
#[derive(Debug, PartialEq, Eq)]
enum AfterResponse {
    Keep,
    Close,
    Reset,
}

/// Accepts connections for ever. They end with the task that this runs in.
pub(super) async fn accept(shared: Arc<ModelState>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn(serve(Arc::clone(&shared), socket));
    }
}

async fn serve(shared: Arc<ModelState>, socket: TcpStream) {
    let _ = socket.set_nodelay(true);
    let (reader, writer) = socket.into_split();
    let mut receiver = Receiver::new(reader, 0);
    let mut sender = Sender::new(writer);
    while let Ok(Some(seen)) = receiver.read_request().await {
        match answer(&shared, &seen, &mut receiver, &mut sender).await {
            Ok(AfterResponse::Keep) => {}
            Ok(AfterResponse::Reset) => return sender.reset(),
            Ok(AfterResponse::Close) | Err(ConnectionCut) => return,
        }
    }
}

async fn answer(
    shared: &ModelState,
    seen: &ReceivedRequest,
    receiver: &mut Receiver,
    sender: &mut Sender,
) -> Result<AfterResponse, ConnectionCut> {
    let path = seen.path.split('?').next().unwrap_or_default();
    match (seen.method.as_str(), path) {
        ("POST", "/v1/messages") => {
            let request = ModelRequest { body: seen.json() };
            let turn = if request.is_probe() {
                Turn::text("yes")
            } else {
                shared.next_turn(request.clone())
            };
            say(shared, &turn, &request, receiver, sender).await
        }
        ("POST", "/v1/messages/count_tokens") => {
            let body = json!({"input_tokens": 10}).to_string();
            sender.answer(&CannedResponse::json(200, body)).await?;
            Ok(AfterResponse::Keep)
        }
        _ => {
            let body = turn::refusal(404, "there is nothing here").to_string();
            sender.answer(&CannedResponse::json(404, body)).await?;
            Ok(AfterResponse::Keep)
        }
    }
}

async fn say(
    shared: &ModelState,
    turn: &Turn,
    request: &ModelRequest,
    receiver: &mut Receiver,
    sender: &mut Sender,
) -> Result<AfterResponse, ConnectionCut> {
    let blocks = match turn {
        Turn::Message(blocks) => blocks.as_slice(),
        Turn::Hang => &[],
        Turn::Reset => return Ok(AfterResponse::Reset),
        Turn::Refused { status, message } => {
            let body = turn::refusal(*status, message).to_string();
            sender.answer(&CannedResponse::json(*status, body)).await?;
            return Ok(AfterResponse::Keep);
        }
    };
    if !request.is_streamed() {
        let number = || shared.next_number();
        let body = turn::whole(blocks, request.model(), number).to_string();
        sender.answer(&CannedResponse::json(200, body)).await?;
        return Ok(AfterResponse::Keep);
    }
    sender.begin_chunks("text/event-stream", &[]).await?;
    let beginning = turn::beginning(shared.next_number(), request.model());
    sender.chunk(&beginning).await?;
    if *turn == Turn::Hang {
        receiver.closed().await;
        return Ok(AfterResponse::Close);
    }
    say_blocks(shared, blocks, sender).await?;
    Ok(AfterResponse::Keep)
}

async fn say_blocks(
    shared: &ModelState,
    blocks: &[Block],
    sender: &mut Sender,
) -> Result<(), ConnectionCut> {
    for (index, block) in blocks.iter().enumerate() {
        let events = turn::block(index, block, shared.next_number());
        sender.chunk(&events).await?;
    }
    sender.chunk(&turn::end(blocks)).await?;
    sender.end_chunks().await
}
