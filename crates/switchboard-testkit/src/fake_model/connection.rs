//! Serves the connections of a scripted model.

use std::sync::Arc;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::ModelState;
use super::request::ModelRequest;
use super::turn::{self, Block, Turn};
use crate::http::{
    AfterResponse, CannedResponse, ConnectionCut, ReceivedRequest, RequestReader, ResponseWriter,
};

/// Accepts connections until the future is dropped, which also closes the open connections.
pub(super) async fn accept(state: Arc<ModelState>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn(serve(Arc::clone(&state), socket));
    }
}

async fn serve(state: Arc<ModelState>, socket: TcpStream) {
    let _ = socket.set_nodelay(true);
    let (reader, writer) = socket.into_split();
    let mut receiver = RequestReader::new(reader, 0);
    let mut sender = ResponseWriter::new(writer);
    while let Ok(Some(request)) = receiver.read_request().await {
        match respond(&state, &request, &mut receiver, &mut sender).await {
            Ok(AfterResponse::Keep) => {}
            Ok(AfterResponse::Reset) => return sender.reset(),
            Ok(AfterResponse::Close) | Err(ConnectionCut) => return,
        }
    }
}

async fn respond(
    state: &ModelState,
    request: &ReceivedRequest,
    receiver: &mut RequestReader,
    sender: &mut ResponseWriter,
) -> Result<AfterResponse, ConnectionCut> {
    let path = request.path.split('?').next().unwrap_or_default();
    match (request.method.as_str(), path) {
        ("POST", "/v1/messages") => {
            let request = ModelRequest {
                body: request.json(),
            };
            let turn = if request.is_probe() {
                Turn::text("yes")
            } else {
                state.next_turn(request.clone())
            };
            send_turn(state, &turn, &request, receiver, sender).await
        }
        ("POST", "/v1/messages/count_tokens") => {
            let body = json!({"input_tokens": 10}).to_string();
            sender
                .send_response(&CannedResponse::json(200, body))
                .await?;
            Ok(AfterResponse::Keep)
        }
        _ => {
            let body = turn::error_body(404, "not found").to_string();
            sender
                .send_response(&CannedResponse::json(404, body))
                .await?;
            Ok(AfterResponse::Keep)
        }
    }
}

async fn send_turn(
    state: &ModelState,
    turn: &Turn,
    request: &ModelRequest,
    receiver: &mut RequestReader,
    sender: &mut ResponseWriter,
) -> Result<AfterResponse, ConnectionCut> {
    let blocks = match turn {
        Turn::Message(blocks) => blocks.as_slice(),
        Turn::Hang => &[],
        Turn::Reset => return Ok(AfterResponse::Reset),
        Turn::Error { status, message } => {
            let body = turn::error_body(*status, message).to_string();
            sender
                .send_response(&CannedResponse::json(*status, body))
                .await?;
            return Ok(AfterResponse::Keep);
        }
    };
    if !request.is_streamed() {
        let number = || state.next_number();
        let body = turn::message_json(blocks, request.model(), number).to_string();
        sender
            .send_response(&CannedResponse::json(200, body))
            .await?;
        return Ok(AfterResponse::Keep);
    }
    sender.begin_chunks("text/event-stream", &[]).await?;
    let start_event = turn::start_event(state.next_number(), request.model());
    sender.chunk(&start_event).await?;
    if *turn == Turn::Hang {
        receiver.closed().await;
        return Ok(AfterResponse::Close);
    }
    send_blocks(state, blocks, sender).await?;
    Ok(AfterResponse::Keep)
}

async fn send_blocks(
    state: &ModelState,
    blocks: &[Block],
    sender: &mut ResponseWriter,
) -> Result<(), ConnectionCut> {
    for (index, block) in blocks.iter().enumerate() {
        let events = turn::block(index, block, state.next_number());
        sender.chunk(&events).await?;
    }
    sender.chunk(&turn::end(blocks)).await?;
    sender.end_chunks().await
}
