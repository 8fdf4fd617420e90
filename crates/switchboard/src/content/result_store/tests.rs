use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_handle_is_read_back_from_its_text_and_from_nothing_else() {
    let handle = ResultHandle::draw();
    assert_eq!(handle.to_string().parse(), Ok(handle));
    assert_eq!(handle.to_string().len(), PREFIX.len() + DIGITS);
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
fn a_directory_gives_back_what_it_keeps_and_lets_nobody_else_see() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("deep/spill");
    let spill = DirectoryResultStore::new(directory.clone());
    assert!(!directory.exists(), "nothing was kept yet");
    let (one, two) = (spill.store("one").unwrap(), spill.store("zwölf\n").unwrap());
    assert_ne!(one, two);
    assert_eq!(spill.read(&one).unwrap(), "one");
    assert_eq!(spill.read(&two).unwrap(), "zwölf\n");
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&spill.path(&one)), 0o600);
    assert_eq!(spill.path(&one), directory.join(one.to_string()));
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = DirectoryResultStore::new(temporary.path().to_owned())
        .store("secret")
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_link_in_the_place_of_a_file_is_neither_read_nor_written() {
    let temporary = tempfile::tempdir().unwrap();
    let secret = temporary.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let spill = DirectoryResultStore::new(temporary.path().join("spill"));
    spill.store("").unwrap();
    let handle = ResultHandle(7);
    symlink(&secret, spill.path(&handle)).unwrap();
    assert_eq!(
        spill.read(&handle).unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
    assert_eq!(
        create(&spill.path(&handle)).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
}

#[test]
fn what_was_never_kept_is_not_found() {
    let temporary = tempfile::tempdir().unwrap();
    let spills: [&dyn ResultStore; 2] = [
        &DirectoryResultStore::new(temporary.path().join("spill")),
        &MemoryResultStore::new(10),
    ];
    for spill in spills {
        let error = spill.read(&ResultHandle(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}

#[test]
fn memory_drops_the_oldest_for_the_newest() {
    let spill = MemoryResultStore::new(10);
    let four = spill.store("four").unwrap();
    let six = spill.store("sixsix").unwrap();
    assert_eq!(spill.read(&four).unwrap(), "four");
    let one = spill.store("1").unwrap();
    assert!(spill.read(&four).is_err());
    assert_eq!(spill.read(&six).unwrap(), "sixsix");
    assert_eq!(spill.read(&one).unwrap(), "1");
    let ten = spill.store("tententent").unwrap();
    assert!(spill.read(&six).is_err());
    assert!(spill.read(&one).is_err());
    assert_eq!(spill.read(&ten).unwrap(), "tententent");
    let error = spill.store("eleveneleve").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(spill.read(&ten).unwrap(), "tententent");
}

#[test]
fn r3_a_blob_is_named_by_us_and_seen_by_its_owner_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("spill");
    let spill = DirectoryResultStore::new(directory.clone());
    let path = spill.store_file(b"\x89PNG", FileType::Png).unwrap();
    assert_eq!(path.parent(), Some(directory.as_path()));
    let name = path.file_name().unwrap().to_str().unwrap();
    let handle = name.strip_suffix(".png").unwrap();
    assert!(handle.parse::<ResultHandle>().is_ok(), "{name}");
    assert_eq!(fs::read(&path).unwrap(), b"\x89PNG");
    assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
    let other = spill.store_file(b"", FileType::Unknown).unwrap();
    assert_eq!(other.extension().unwrap(), "bin");
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn age(path: &Path, days: u32) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - days * DAY).unwrap();
}

#[test]
fn tidying_removes_what_is_old_and_then_the_oldest_of_what_is_too_much() {
    let temporary = tempfile::tempdir().unwrap();
    let spill = DirectoryResultStore::new(temporary.path().join("spill"));
    assert_eq!(spill.prune(DAY, 0).unwrap(), 0, "nothing was kept yet");
    assert!(!temporary.path().join("spill").exists());
    let files = [9, 8, 3, 2, 1].map(|days| {
        let path = match days {
            8 => spill.store_file(b"1234", FileType::Json).unwrap(),
            _ => spill.path(&spill.store("1234").unwrap()),
        };
        age(&path, days);
        path
    });
    let left = || files.each_ref().map(|path| path.exists());
    assert_eq!(spill.prune(7 * DAY, 12).unwrap(), 2);
    assert_eq!(left(), [false, false, true, true, true]);
    assert_eq!(spill.prune(7 * DAY, 11).unwrap(), 1);
    assert_eq!(left(), [false, false, false, true, true]);
    assert_eq!(spill.prune(7 * DAY, 8).unwrap(), 0);
    assert_eq!(spill.prune(7 * DAY, 0).unwrap(), 2);
}

#[test]
fn r2_tidying_leaves_alone_what_is_not_ours_and_follows_no_link() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("spill");
    let spill = DirectoryResultStore::new(directory.clone());
    let ours = spill.path(&spill.store("x").unwrap());
    age(&ours, 9);
    let handle = ResultHandle::draw().to_string();
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
        fs::write(&path, "theirs").unwrap();
        age(&path, 9);
    }
    let elsewhere = temporary.path().join(ResultHandle::draw().to_string());
    fs::write(&elsewhere, "theirs").unwrap();
    age(&elsewhere, 9);
    symlink(&elsewhere, directory.join(&handle)).unwrap();
    fs::create_dir(directory.join(format!("{handle}.bin"))).unwrap();

    assert_eq!(spill.prune(7 * DAY, 0).unwrap(), 1);
    assert!(!ours.exists());
    let left = fs::read_dir(&directory).unwrap().count();
    assert_eq!(left, others.len() + 2);
    assert!(elsewhere.exists());

    // Nor is a link in the place of the folder.
    let link = temporary.path().join("link");
    symlink(temporary.path(), &link).unwrap();
    let denied = DirectoryResultStore::new(link)
        .prune(7 * DAY, 0)
        .unwrap_err();
    assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
    assert!(elsewhere.exists());
}

#[test]
fn r2_a_link_in_the_place_of_the_folder_is_not_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let elsewhere = temporary.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let link = temporary.path().join("spill");
    symlink(&elsewhere, &link).unwrap();
    let spill = DirectoryResultStore::new(link);
    let denied = io::ErrorKind::PermissionDenied;
    let blob = spill.store_file(b"x", FileType::Png);
    assert_eq!(blob.unwrap_err().kind(), denied);
    assert_eq!(spill.store("x").unwrap_err().kind(), denied);
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn r2_a_link_in_the_place_of_a_blob_is_not_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let secret = temporary.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let link = temporary.path().join("result.png");
    symlink(&secret, &link).unwrap();
    assert_eq!(
        create(&link).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
}

#[test]
fn memory_has_no_place_for_files() {
    let error = MemoryResultStore::new(10).store_file(b"x", FileType::Png);
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Unsupported);
}
