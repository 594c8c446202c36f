//! The trees a, c, d and e: files with a number, of invented bytes.
//!
//! Files below `distinct` have contents of their own, the others are copies of one of those. They are
//! dealt to the folders in turn, so that each folder has its share of both.

use std::io;
use std::path::Path;

use crate::Request;
use crate::random::{Random, hash};
use crate::writing::{Made, Writer, write_all};

/// One name in this many begins with a dot.
const HIDDEN: u64 = 61;
const FOLDERS_IN_A_FOLDER: u64 = 50;
const MIB: u64 = 1 << 20;

struct Shape {
    files: u64,
    folders: u64,
    distinct: u64,
    /// The first size, the last one, and from one to the next: fewer files have fewer sizes, or
    /// most of them would be told apart by size alone.
    sizes: (u64, u64, u64),
    fill: fn(&mut Random, &mut [u8]),
}

pub(crate) fn make(request: &Request, root: &Path) -> io::Result<Made> {
    match request.tree.as_str() {
        "c" => large_files(request, root),
        tree => {
            let shape = shape(tree, request);
            write_all(root, shape.files, |writer, number| one(writer, &shape, request, number))
        }
    }
}

fn shape(tree: &str, request: &Request) -> Shape {
    let copies = |files: u64, share: f64| (files as f64 * share).round() as u64;
    match tree {
        "a" => {
            let files = request.scaled(200_000, 100);
            let step = (200_000 / files).clamp(1, 256);
            let (folders, distinct) = (request.scaled(2_000, 4), files - copies(files, 0.3));
            Shape { files, folders, distinct, sizes: (0, 16 << 10, step), fill: Random::fill }
        }
        "d" => {
            let files = request.scaled(2_000, 10);
            let (folders, distinct) = (request.scaled(20, 2), files - copies(files, 0.2));
            Shape { files, folders, distinct, sizes: (MIB, MIB, 1), fill: all_but_equal }
        }
        "e" => {
            let files = request.scaled(1_000_000, 500);
            let (folders, distinct) = (request.scaled(4_000, 4), files - copies(files, 0.3));
            Shape { files, folders, distinct, sizes: (16, 1_023, 1), fill: Random::fill }
        }
        _ => unreachable!("the command line has no other tree"),
    }
}

/// Equal but for eight bytes in the middle.
fn all_but_equal(random: &mut Random, bytes: &mut [u8]) {
    Random::of(0, "what all have", 0).fill(bytes);
    let middle = bytes.len() / 2;
    random.fill(&mut bytes[middle..middle + 8]);
}

fn one(writer: &mut Writer, shape: &Shape, request: &Request, number: u64) -> io::Result<()> {
    let mut place = Random::of(request.seed, "name", number);
    let name = if place.one_in(HIDDEN) { "." } else { "" };
    let folder = number % shape.folders;
    let path = format!(
        "{:03}/{:02}/{name}{:05x}-{:04}.bin",
        folder / FOLDERS_IN_A_FOLDER,
        folder % FOLDERS_IN_A_FOLDER,
        place.below(1 << 20),
        number / shape.folders
    );
    let content = if number < shape.distinct { number } else { place.below(shape.distinct) };
    let mut random = Random::of(request.seed, "content", content);
    let (first, last, step) = shape.sizes;
    let size = first + step * random.below((last - first) / step + 1);
    let mut bytes = vec![0; size as usize];
    (shape.fill)(&mut random, &mut bytes);
    writer.file(path, &bytes)
}

/// 24 files of one size: four groups of three, twelve alone. The scale is one of sizes.
fn large_files(request: &Request, root: &Path) -> io::Result<Made> {
    const GROUPS: u64 = 4;
    const ALONE: u64 = 12;
    let size = request.scaled(256 * MIB, 64 << 10);
    write_all(root, GROUPS + ALONE, |writer, content| {
        let mut bytes = vec![0; size as usize];
        Random::of(request.seed, "content", content).fill(&mut bytes);
        let known = hash(&bytes);
        let copies = if content < GROUPS { 3 } else { 1 };
        for copy in 0..copies {
            writer.known_file(format!("{copy}/{content:02}.img"), &bytes, known)?;
        }
        Ok(())
    })
}
