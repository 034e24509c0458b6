//! What a command is given under Landlock: rules about the host's own paths, where nothing is mounted.

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::EntryKind;

use super::binds::plan_binds;
use super::environment::{Places, check_variables, plan_environment};
use super::root::Root;
use super::user::choose_user;
use super::{LaunchPlan, Mount, PLAN_SCHEMA, PlanWarning, Snapshot, command_of};
use crate::backend::Backend;
use crate::bind::{Bind, normal_target};
use crate::host::{Host, SystemEntry};
use crate::integrity::{Integrity, Method, Sandbox};
use crate::landlock::NEEDED;
use crate::landlock::private::{EXTENSIONS, HOME, TEMPORARIES};
use crate::plan_error::PlanError;
use crate::request::{LaunchRequest, Names, Network};

/// The plan for `--sandbox landlock`.
pub(super) fn plan(
    snapshot: Snapshot<'_>,
    request: &LaunchRequest,
    host: &Host,
    kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
) -> Result<LaunchPlan, PlanError> {
    // To ask for this sandbox is not to ask for less.
    if request.seal.is_some() || request.require.is_none_or(|required| required > Integrity::ReadOnly) {
        return Err(PlanError::NotSealed { sandbox: Sandbox::Landlock });
    }
    if request.in_place {
        return Err(PlanError::InPlace { how: Method::Landlock });
    }
    for (is_asked, what) in
        [(request.terminal, "a terminal"), (request.rootfs.is_some(), "another root directory")]
    {
        if is_asked {
            return Err(PlanError::LandlockCannot { what });
        }
    }
    match host.landlock {
        0 => return Err(PlanError::NoLandlock),
        found if found < NEEDED => return Err(PlanError::LandlockTooOld { found, needed: NEEDED }),
        _ if !crate::filter::is_known_here() => {
            return Err(PlanError::Sandbox { sandbox: Sandbox::Landlock });
        }
        _ => {}
    }
    let private = &snapshot.private;
    let names = plan_names(&snapshot, request, private)?;
    let mut warnings = Vec::new();
    let user = choose_user(request, host, &mut warnings)?;
    for bind in request.workspace.iter().chain(&request.binds) {
        if bind.source != bind.target {
            let (path, target) = (bind.source.clone(), bind.target.clone());
            return Err(PlanError::LandlockElsewhere { path, target });
        }
    }
    // A directory that is lent for the extensions may lie in the workspace.
    let own = Names { extensions_dir: private.join(EXTENSIONS), ..names.clone() };
    let root = Root::of(request, &own, host);
    let protection = plan_binds(&snapshot, request, &own, &root, kind_at)?;
    let live_sources_visible = protection.visible.clone();
    let binds = protection.into_binds();
    refuse_exceptions(&binds, request)?;
    if !live_sources_visible.is_empty() {
        warnings.push(PlanWarning::LiveSourcesVisible { paths: live_sources_visible.clone() });
    }
    let (home, temporaries) = (private.join(HOME), private.join(TEMPORARIES));
    let places = Places { home: &home, temporaries: &temporaries };
    Ok(LaunchPlan {
        schema: PLAN_SCHEMA,
        snapshot: snapshot.digest,
        skills: snapshot.skills,
        integrity: Integrity::ReadOnly,
        how: Method::Landlock,
        backend: Backend::Landlock { abi: host.landlock },
        mounts: plan_mounts(request, host, private, &names, binds),
        environment: plan_environment(request, &names, Integrity::ReadOnly, places)?,
        network: request.network,
        user,
        drops_privileges: host.user.0 == 0,
        terminal: false,
        working_directory: request.workspace.as_ref().map_or(home.clone(), |bind| bind.target.clone()),
        command: command_of(request, &names),
        rootfs: None,
        names,
        keep: request.keep.clone(),
        live_sources_visible,
        warnings,
    })
}

/// Everything is where it is on the host.
fn plan_names(
    snapshot: &Snapshot<'_>,
    request: &LaunchRequest,
    private: &Utf8Path,
) -> Result<Names, PlanError> {
    let extensions = request.extensions.as_ref().map(|bind| bind.source.clone());
    let (skills, extensions) =
        (snapshot.path.to_owned(), extensions.unwrap_or_else(|| private.join(EXTENSIONS)));
    let (asked, default) = (&request.names, Names::default());
    for (asked, default, source) in [
        (&asked.skills_dir, &default.skills_dir, &skills),
        (&asked.extensions_dir, &default.extensions_dir, &extensions),
    ] {
        if asked != default && asked != source {
            let (path, target) = (source.clone(), asked.clone());
            return Err(PlanError::LandlockElsewhere { path, target });
        }
    }
    let names =
        Names { skills_dir: normal_target(skills)?, extensions_dir: extensions, ..request.names.clone() };
    check_variables(&names)?;
    Ok(names)
}

/// Rules only add, so nothing in what may be written can be kept from it.
fn refuse_exceptions(binds: &[Bind], request: &LaunchRequest) -> Result<(), PlanError> {
    let extensions = request.extensions.iter();
    let writable: Vec<&Bind> = binds.iter().chain(extensions).filter(|bind| bind.writable).collect();
    for bind in binds.iter().filter(|bind| !bind.writable) {
        let above = writable.iter().find(|above| bind.source.starts_with(&above.source));
        let Some(above) = above.map(|above| above.source.clone()) else { continue };
        let path = bind.source.clone();
        let is_source = request
            .guards
            .iter()
            .any(|guard| guard.found.as_ref().is_some_and(|found| found.canonical == path));
        return Err(if is_source {
            PlanError::LandlockSourceExposed { path, above }
        } else {
            PlanError::LandlockReadOnly { path, above }
        });
    }
    Ok(())
}

fn plan_mounts(
    request: &LaunchRequest,
    host: &Host,
    private: &Utf8Path,
    names: &Names,
    binds: Vec<Bind>,
) -> Vec<Mount> {
    let system = |path: &Utf8Path| Mount::System { path: path.to_owned() };
    let mut mounts: Vec<Mount> = host.system.iter().map(SystemEntry::path).map(system).collect();
    mounts.extend(host.etc.iter().map(|path| system(path)));
    if request.network == Network::Host {
        mounts.extend(host.resolver.iter().map(|path| system(path)));
    }
    mounts.extend([Mount::Proc, Mount::Dev]);
    let own = |name: &str| Mount::Private { path: private.join(name) };
    mounts.extend([own(HOME), own(TEMPORARIES)]);
    // What protects something in a writable bind was refused: of each only the bind itself is left.
    mounts.extend(binds.into_iter().map(Mount::Bind));
    mounts.push(match &request.extensions {
        Some(bind) => Mount::Bind(bind.clone()),
        None => own(EXTENSIONS),
    });
    mounts.push(Mount::Snapshot { target: names.skills_dir.clone() });
    mounts
}

/// Where the directories of this launch alone are, if it has any.
pub(super) fn private_directory(plan: &LaunchPlan) -> Option<Utf8PathBuf> {
    plan.mounts.iter().find_map(|mount| match mount {
        Mount::Private { path } => path.parent().map(Utf8Path::to_owned),
        _ => None,
    })
}
