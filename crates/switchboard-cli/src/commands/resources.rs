//! `resources [SERVER]`: lists resources, or URI templates with `--templates`.

use switchboard::content::for_terminal;
use switchboard::mcp::{Resource, ResourceTemplate};
use switchboard::query::Listing;

use super::listing::{list, notes_of};
use crate::args::ResourcesArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::render::server_text::short_field;
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, format_count, json, text};
use crate::signals::Signals;
use switchboard::content::quote_for_shell;

/// Maximum columns of a URI. A longer one would make the whole table as wide.
const MAX_URI_COLUMNS: usize = 500;

pub(crate) async fn run(
    args: &ResourcesArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let server = args.server.as_deref();
    if args.templates {
        let request = async |host: &switchboard::Host, server: Option<&str>| {
            host.resource_templates(server).await
        };
        return list(
            server,
            "templates",
            context,
            signals,
            request,
            render_templates,
        )
        .await;
    }
    let console = &context.console;
    let request = async |host: &switchboard::Host, server: Option<&str>| {
        let resources = host.resources(server).await?;
        // An error is ignored: the note is only an addition to the list.
        let templates = host.resource_templates(server).await;
        let templates = templates.map_or(0, |listing| listing.items.len());
        if templates > 0 {
            console.note(&templates_note(templates, server));
        }
        Ok(resources)
    };
    list(server, "resources", context, signals, request, render).await
}

fn templates_note(count: usize, server: Option<&str>) -> String {
    let templates = format_count(count, "URI template");
    let server = server.map(|server| format!(" {}", quote_for_shell(server)));
    format!(
        "{templates} not listed: switchboard resources --templates{}",
        server.unwrap_or_default()
    )
}

fn render(listing: &Listing<Resource>, console: &Console) -> String {
    if console.is_json() {
        return json::listing(&listing.items, notes_of(listing));
    }
    if listing.items.is_empty() {
        return String::new();
    }
    // The URI is not truncated to the terminal, because the user has to type it. Other columns are dropped first.
    let mut table = Table::new(2, Overflow::Truncate).droppable(&[4, 3]);
    table.row(render_heading(&["SERVER", "URI", "NAME", "TYPE", "SIZE"]));
    for resource in &listing.items {
        let item = &resource.item;
        let size = item.size.and_then(|size| usize::try_from(size).ok());
        table.row(vec![
            Cell::new(for_terminal(resource.server.as_str())),
            Cell::new(short_field(&item.uri, MAX_URI_COLUMNS)).paint(Paint::Bold),
            Cell::new(display_name(item.title.as_deref(), &item.name, &item.uri)),
            Cell::new(render_mime(item.mime_type.as_deref())),
            Cell::new(size.map(text::format_thousands).unwrap_or_default()).number(),
        ]);
    }
    table.render(console.columns, console.style)
}

fn render_templates(listing: &Listing<ResourceTemplate>, console: &Console) -> String {
    if console.is_json() {
        return json::listing(&listing.items, notes_of(listing));
    }
    if listing.items.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2, Overflow::Truncate).droppable(&[3]);
    table.row(render_heading(&["SERVER", "TEMPLATE", "NAME", "TYPE"]));
    for template in &listing.items {
        let item = &template.item;
        table.row(vec![
            Cell::new(for_terminal(template.server.as_str())),
            Cell::new(short_field(&item.uri_template, MAX_URI_COLUMNS)).paint(Paint::Bold),
            Cell::new(display_name(
                item.title.as_deref(),
                &item.name,
                &item.uri_template,
            )),
            Cell::new(render_mime(item.mime_type.as_deref())),
        ]);
    }
    table.render(console.columns, console.style)
}

fn render_heading(names: &[&'static str]) -> Vec<Cell> {
    let cell = |name: &&'static str| match *name {
        "SIZE" => Cell::new(*name).paint(Paint::Dim).number(),
        name => Cell::new(name).paint(Paint::Dim),
    };
    names.iter().map(cell).collect()
}

/// Returns the title, or the name if there is no title. Empty if the result would repeat the URI.
fn display_name(title: Option<&str>, name: &str, uri: &str) -> String {
    let name = title.unwrap_or(name);
    if name == uri {
        return String::new();
    }
    text::first_line(name)
}

fn render_mime(mime_type: Option<&str>) -> String {
    text::first_line(mime_type.unwrap_or_default())
}
