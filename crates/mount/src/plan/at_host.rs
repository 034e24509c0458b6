//! What a command is given by a sandbox of rules about the host's own paths, where nothing is mounted.

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::EntryKind;

use super::binds::plan_binds;
use super::environment::{Places, check_variables, plan_environment};
use super::root::Root;
use super::user::choose_user;
use super::{LaunchPlan, PLAN_SCHEMA, PlanWarning, Snapshot, command_of};
use crate::backend::Backend;
use crate::bind::{Bind, normal_target};
use crate::host::{Host, SystemEntry};
use crate::integrity::{Integrity, Method};
use crate::mount::Mount;
use crate::names::Names;
use crate::network::Network;
use crate::plan_error::PlanError;
use crate::private::{EXTENSIONS, HOME, TEMPORARIES};
use crate::request::LaunchRequest;

/// What applies the rules.
pub(super) struct Enclosing {
    pub(super) how: Method,
    pub(super) backend: Backend,
}

/// A plan in which everything is at its own path.
pub(super) fn plan_at_host(
    snapshot: Snapshot<'_>,
    request: &LaunchRequest,
    host: &Host,
    kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
    enclosing: Enclosing,
) -> Result<LaunchPlan, PlanError> {
    let how = enclosing.how;
    if request.in_place {
        return Err(PlanError::InPlace { how });
    }
    let asked = [(request.terminal, "a terminal"), (request.rootfs.is_some(), "another root directory")];
    if let Some((_, what)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(PlanError::Cannot { how, what });
    }
    let private = &snapshot.private;
    let names = plan_names(&snapshot, request, private, &enclosing)?;
    let user = choose_user(request, host)?;
    for bind in request.workspace.iter().chain(&request.binds) {
        if bind.source != bind.target {
            let (path, target) = (bind.source.clone(), bind.target.clone());
            return Err(elsewhere(&enclosing, path, target));
        }
    }
    let lent = request.workspace.iter().chain(&request.binds).map(|bind| &bind.source);
    if let Some(within) = lent.chain(&request.store).find(|lent| private.starts_with(lent)) {
        let path = private.parent().unwrap_or(private).to_owned();
        return Err(PlanError::Temporaries { path, within: within.clone() });
    }
    // A directory that is lent for the extensions may lie in the workspace.
    let own = Names { extensions_dir: private.join(EXTENSIONS), ..names.clone() };
    let protection = plan_binds(&snapshot, request, &own, &Root::of(request, &own, host), kind_at)?;
    let live_sources_visible = protection.visible.clone();
    let mut warnings = Vec::new();
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
        how: enclosing.how,
        backend: enclosing.backend,
        mounts: plan_mounts(request, host, private, &names, protection.into_binds()),
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

fn elsewhere(enclosing: &Enclosing, path: Utf8PathBuf, target: Utf8PathBuf) -> PlanError {
    match enclosing.backend {
        Backend::Landlock { .. } => PlanError::LandlockElsewhere { path, target },
        _ => PlanError::Uncarried { form: "seatbelt", path: target },
    }
}

/// Everything is where it is on the host.
fn plan_names(
    snapshot: &Snapshot<'_>,
    request: &LaunchRequest,
    private: &Utf8Path,
    enclosing: &Enclosing,
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
            return Err(elsewhere(enclosing, path, target));
        }
    }
    let names =
        Names { skills_dir: normal_target(skills)?, extensions_dir: extensions, ..request.names.clone() };
    check_variables(&names)?;
    Ok(names)
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
    // What protects something in a writable bind was refused under Landlock; a Seatbelt profile denies it last.
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
