use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn handle_round_trips_through_text() {
    let handle = ResultHandle::random();
    assert_eq!(handle.to_string().parse(), Ok(handle));
    assert_eq!(
        handle.to_string().len(),
        HANDLE_PREFIX.len() + HANDLE_DIGITS
    );
    let low: ResultHandle = "result-00000000000000000000000000000001".parse().unwrap();
    assert_eq!(low, ResultHandle(1));
    for text in [
        "",
        "result-",
        "result-1",
        "00000000000000000000000000000001",
        "result-0000000000000000000000000000000g",
        "result-0000000000000000000000000000000A",
        "result-+0000000000000000000000000000001",
        "result-000000000000000000000000000000001",
        "result-../../../../../../etc/passwd0000",
        "result-00000000000000000000000000000001\n",
    ] {
        assert_eq!(
            text.parse::<ResultHandle>(),
            Err(InvalidResultHandle),
            "{text}"
        );
    }
}

#[test]
fn stored_text_is_private_and_readable() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("deep/results");
    let store = DirectoryResultStore::new(directory.clone());
    assert!(!directory.exists(), "nothing was stored yet");
    let (one, two) = (store.store("one").unwrap(), store.store("zwölf\n").unwrap());
    assert_ne!(one, two);
    assert_eq!(store.read(&one).unwrap(), "one");
    assert_eq!(store.read(&two).unwrap(), "zwölf\n");
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&store.path(&one)), 0o600);
    assert_eq!(store.path(&one), directory.join(one.to_string()));
}

#[test]
fn world_writable_directory_is_rejected() {
    let temporary = tempfile::tempdir().unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = DirectoryResultStore::new(temporary.path().to_owned())
        .store("secret")
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn symlinked_file_is_not_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let secret = temporary.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let store = DirectoryResultStore::new(temporary.path().join("results"));
    store.store("").unwrap();
    let handle = ResultHandle(7);
    symlink(&secret, store.path(&handle)).unwrap();
    assert_eq!(
        store.read(&handle).unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
    assert_eq!(
        create_new_file(&store.path(&handle)).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
}

#[test]
fn unknown_handle_is_not_found() {
    let temporary = tempfile::tempdir().unwrap();
    let stores: [&dyn ResultStore; 2] = [
        &DirectoryResultStore::new(temporary.path().join("results")),
        &MemoryResultStore::new(10),
    ];
    for store in stores {
        let error = store.read(&ResultHandle(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}

#[test]
fn memory_store_drops_oldest_text() {
    let store = MemoryResultStore::new(10);
    let four = store.store("four").unwrap();
    let six = store.store("sixsix").unwrap();
    assert_eq!(store.read(&four).unwrap(), "four");
    let one = store.store("1").unwrap();
    assert!(store.read(&four).is_err());
    assert_eq!(store.read(&six).unwrap(), "sixsix");
    assert_eq!(store.read(&one).unwrap(), "1");
    let ten = store.store("tententent").unwrap();
    assert!(store.read(&six).is_err());
    assert!(store.read(&one).is_err());
    assert_eq!(store.read(&ten).unwrap(), "tententent");
    let error = store.store("eleveneleve").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(store.read(&ten).unwrap(), "tententent");
}

#[test]
fn saved_file_has_random_name_and_is_private() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("results");
    let store = DirectoryResultStore::new(directory.clone());
    let path = store.store_file(b"\x89PNG", FileType::Png).unwrap();
    assert_eq!(path.parent(), Some(directory.as_path()));
    let name = path.file_name().unwrap().to_str().unwrap();
    let handle = name.strip_suffix(".png").unwrap();
    assert!(handle.parse::<ResultHandle>().is_ok(), "{name}");
    assert_eq!(fs::read(&path).unwrap(), b"\x89PNG");
    assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
    let other = store.store_file(b"", FileType::Unknown).unwrap();
    assert_eq!(other.extension().unwrap(), "bin");
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn age(path: &Path, days: u32) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - days * DAY).unwrap();
}

#[test]
fn prune_deletes_by_age_then_size() {
    let temporary = tempfile::tempdir().unwrap();
    let store = DirectoryResultStore::new(temporary.path().join("results"));
    assert_eq!(store.prune(DAY, 0).unwrap(), 0, "nothing was stored yet");
    assert!(!temporary.path().join("results").exists());
    let files = [9, 8, 3, 2, 1].map(|days| {
        let path = match days {
            8 => store.store_file(b"1234", FileType::Json).unwrap(),
            _ => store.path(&store.store("1234").unwrap()),
        };
        age(&path, days);
        path
    });
    let left = || files.each_ref().map(|path| path.exists());
    assert_eq!(store.prune(7 * DAY, 12).unwrap(), 2);
    assert_eq!(left(), [false, false, true, true, true]);
    assert_eq!(store.prune(7 * DAY, 11).unwrap(), 1);
    assert_eq!(left(), [false, false, false, true, true]);
    assert_eq!(store.prune(7 * DAY, 8).unwrap(), 0);
    assert_eq!(store.prune(7 * DAY, 0).unwrap(), 2);
}

#[test]
fn prune_ignores_links_and_files_of_others() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("results");
    let store = DirectoryResultStore::new(directory.clone());
    let own_file = store.path(&store.store("x").unwrap());
    age(&own_file, 9);
    let handle = ResultHandle::random().to_string();
    let others = [
        "notes".to_owned(),
        "result-1".to_owned(),
        format!("{handle}."),
        format!("{handle}.PNG"),
        format!("{handle}.tar.gz"),
        format!("x{handle}"),
    ];
    for name in &others {
        let path = directory.join(name);
        fs::write(&path, "not ours").unwrap();
        age(&path, 9);
    }
    let elsewhere = temporary.path().join(ResultHandle::random().to_string());
    fs::write(&elsewhere, "not ours").unwrap();
    age(&elsewhere, 9);
    symlink(&elsewhere, directory.join(&handle)).unwrap();
    fs::create_dir(directory.join(format!("{handle}.bin"))).unwrap();

    assert_eq!(store.prune(7 * DAY, 0).unwrap(), 1);
    assert!(!own_file.exists());
    let left = fs::read_dir(&directory).unwrap().count();
    assert_eq!(left, others.len() + 2);
    assert!(elsewhere.exists());

    // `prune` fails if the directory of the store is a symbolic link.
    let link = temporary.path().join("link");
    symlink(temporary.path(), &link).unwrap();
    let denied = DirectoryResultStore::new(link)
        .prune(7 * DAY, 0)
        .unwrap_err();
    assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
    assert!(elsewhere.exists());
}

#[test]
fn symlinked_directory_is_not_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let elsewhere = temporary.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let link = temporary.path().join("results");
    symlink(&elsewhere, &link).unwrap();
    let store = DirectoryResultStore::new(link);
    let denied = io::ErrorKind::PermissionDenied;
    let blob = store.store_file(b"x", FileType::Png);
    assert_eq!(blob.unwrap_err().kind(), denied);
    assert_eq!(store.store("x").unwrap_err().kind(), denied);
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn symlinked_data_file_is_not_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let secret = temporary.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let link = temporary.path().join("result.png");
    symlink(&secret, &link).unwrap();
    assert_eq!(
        create_new_file(&link).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
}

#[test]
fn memory_store_saves_no_files() {
    let error = MemoryResultStore::new(10).store_file(b"x", FileType::Png);
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Unsupported);
}
