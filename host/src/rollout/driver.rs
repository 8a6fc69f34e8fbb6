//! In which order the revisions of one plugin are taken: one at a time, and none is lost to another.
//!
//! ```text
//! a newer file   takes the place of what is being taken of the file before it, once that had some time;
//!                looked for on a reload, and with `--follow` all the time
//! plugin.yaml    likewise, and has what is there judged by what it says now
//! a verdict      the way back comes first; what was being taken is offered again after it
//! a person       going back by hand comes first, too; where it fails, what was under way begins again
//! ```
//!
//! Files wait for a way back, which therefore has a time-out of its own. Nobody who asks holds up the
//! others: they are told when nothing is being taken and both files are as they were when they were read,
//! so that who wrote one and asks hears of that one.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::config::file;
use crate::rollout::managed_plugin::{Reply, Request, Supervised, Wish};
use crate::sandbox::candidate::Candidate;
use crate::sandbox::error::LoadError;
use crate::sandbox::followed_file;
use crate::sandbox::followed_file::FollowedFile;
use hotshoe_core::flow::probation::Relapse;

/// So long what is being taken does not give way to a newer file: where files come faster than they compile,
/// none would ever decide. Of those that come meanwhile only the last is taken.
const GIVES_WAY: Duration = Duration::from_secs(5);
/// How often is looked whether children of a kind are left that is owned no longer.
const PRUNED: Duration = Duration::from_secs(5);

/// What is followed of one plugin.
struct Following {
    supervised: Arc<Supervised>,
    /// `plugin.yaml`.
    plugin_file: FollowedFile,
    /// The component.
    component: FollowedFile,
    /// The revision that is being taken.
    taking: Option<Taking>,
    /// Who waits to hear what comes of what is offered.
    asked: Vec<Reply>,
}

/// A revision on its way.
struct Taking {
    what: What,
    since: Instant,
    under_way: BoxFuture<'static, Result<(), String>>,
}

enum What {
    /// What the file holds.
    Offered,
    /// The one before the present one, which did worse: so.
    WayBack(Relapse),
    /// An earlier one, for a person.
    Wished { reply: Reply, instead_of: Option<Interrupted> },
}

/// What a person had interrupted.
enum Interrupted {
    Offered,
    WayBack(Relapse),
}

/// Follows `plugin.yaml` and the component's file, one revision after the other. Taking one may wait
/// long, for a kind that is not there yet; a newer file takes its place.
pub(crate) async fn follow(supervised: Arc<Supervised>, mut requests: mpsc::Receiver<Request>) {
    let plugin = supervised.plugin();
    let mut following = Following {
        plugin_file: FollowedFile::file(&plugin.path, file::MOST),
        component: FollowedFile::first_of(plugin.component.clone(), plugin.limits.component_bytes)
            .following(supervised.shared.host.follow),
        taking: None,
        asked: Vec::new(),
        supervised: supervised.clone(),
    };
    // A file that is read and brings no news wakes nobody, and may be all that somebody waits for. Those who
    // ask often must not put it off.
    let mut looks = interval(followed_file::POLL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut prunings = interval(PRUNED);
    prunings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let takes_files = following.takes_files();
        let gives_way = following.gives_way_at();
        let is_in_time = gives_way <= Instant::now();
        tokio::select! {
            offered = following.plugin_file.next(), if takes_files => following.take_plugin_file(offered).await,
            offered = following.component.next(), if takes_files && is_in_time => following.take(offered),
            () = sleep_until(gives_way), if takes_files && !is_in_time => {}
            done = finished(&mut following.taking) => following.end(done),
            relapse = supervised.controller.relapsed(), if takes_files => following.go_back(relapse),
            Some(request) = requests.recv() => following.fulfil(request).await,
            _ = prunings.tick(), if following.taking.is_none() => supervised.end_pruned_kinds(),
            _ = looks.tick(), if !following.asked.is_empty() => following.answer(),
        }
    }
}

impl Following {
    /// Whether files are looked at: they are not beside a way back, which must not be lost to one.
    fn takes_files(&self) -> bool {
        self.taking.as_ref().is_none_or(|taking| matches!(taking.what, What::Offered))
    }

    /// From when on a newer file takes the place of what is being taken.
    fn gives_way_at(&self) -> Instant {
        self.taking.as_ref().map_or_else(Instant::now, |taking| taking.since + GIVES_WAY)
    }

    /// What is being taken from now on.
    fn begin(&mut self, what: What, under_way: BoxFuture<'static, Result<(), String>>) {
        self.taking = Some(Taking { what, since: Instant::now(), under_way });
    }

    fn take(&mut self, offered: Result<Candidate, LoadError>) {
        let taken = self.supervised.clone().take(offered).map(Ok);
        self.begin(What::Offered, taken.boxed());
    }

    fn go_back(&mut self, relapse: Relapse) {
        if self.taking.is_some() {
            self.component.offer_again();
        }
        let back = self.supervised.clone().take_back(relapse.clone(), self.component.offered()).map(Ok);
        self.begin(What::WayBack(relapse), back.boxed());
    }

    /// What was being taken has ended.
    fn end(&mut self, done: Result<(), String>) {
        let Some(Taking { what, .. }) = self.taking.take() else { return };
        if let What::Wished { reply, instead_of } = what {
            match instead_of.filter(|_| done.is_err()) {
                Some(Interrupted::Offered) => self.component.offer_again(),
                Some(Interrupted::WayBack(relapse)) => self.go_back(relapse),
                None => {}
            }
            self.tell(reply, done);
        }
        self.answer();
    }

    /// What `plugin.yaml` says anew may open the way for what was not taken, and what is being taken
    /// begins again with it: nothing is published that was judged by what it said before.
    async fn take_plugin_file(&mut self, offered: Result<Candidate, LoadError>) {
        if self.supervised.take_plugin_file(offered).await {
            self.taking = None;
            let plugin = self.supervised.plugin();
            self.component.redirect(plugin.component.clone(), plugin.limits.component_bytes);
            // What was being taken may not be in the file any more; a reload is about what is there now.
            if !self.asked.is_empty() || self.supervised.controller.logic().is_none() {
                self.component.request();
            }
        }
    }

    async fn fulfil(&mut self, Request { wish, reply }: Request) {
        // Those who have gone are not to pile up behind a file that is written for ever.
        self.asked.retain(|reply| !reply.is_closed());
        match wish {
            Wish::RollBack(to) => self.roll_back(to.as_deref(), reply),
            Wish::Approve(digest) => match self.supervised.approve(digest.as_deref()).await {
                Ok(()) => {
                    self.component.offer_again();
                    self.asked.push(reply);
                }
                Err(why) => self.tell(reply, Err(why)),
            },
            Wish::Reload => {
                self.look();
                self.asked.push(reply);
            }
        }
    }

    /// Has the files looked at, whatever they look like; beside a way back, after it. Somebody else's look that
    /// is under way is as good: what was written since then is seen by its time.
    fn look(&mut self) {
        if !self.takes_files() || self.is_worth_another_try() {
            self.component.offer_again();
            self.component.request();
            return;
        }
        self.component.request();
        if self.asked.is_empty() {
            self.plugin_file.look_anew();
            self.component.look_anew();
        }
    }

    /// Nothing is given up for a wish that cannot be fulfilled.
    fn roll_back(&mut self, to: Option<&str>, reply: Reply) {
        if matches!(&self.taking, Some(Taking { what: What::Wished { .. }, .. })) {
            return self.tell(reply, Err("somebody else is just going back; try again in a moment".to_owned()));
        }
        match self.supervised.earlier(to) {
            Ok(earlier) => {
                let instead_of = self.taking.take().and_then(|taking| match taking.what {
                    What::Offered => Some(Interrupted::Offered),
                    What::WayBack(relapse) => Some(Interrupted::WayBack(relapse)),
                    What::Wished { .. } => None,
                });
                let newer = matches!(instead_of, Some(Interrupted::Offered));
                let under_way = self.supervised.clone().roll_back(earlier, self.component.offered(), newer).boxed();
                self.begin(What::Wished { reply, instead_of }, under_way);
            }
            Err(why) => self.tell(reply, Err(why)),
        }
    }

    /// Whether what the file holds neither decides, nor is being taken, nor waits for a person: why it
    /// was not taken may have passed.
    fn is_worth_another_try(&self) -> bool {
        let offered = self.component.offered();
        let deciding = self.supervised.controller.logic().map(|logic| logic.revision.digest());
        let refused = self.supervised.controller.slot.refused();
        let waits = refused.is_some_and(|refused| refused.can_be_approved() && refused.digest == offered);
        self.taking.is_none() && (offered.is_none() || offered != deciding) && !waits
    }

    /// Tells those who asked, once nothing is left to be taken or read.
    fn answer(&mut self) {
        if self.taking.is_some() || self.plugin_file.has_changed() || self.component.has_changed() {
            return;
        }
        for reply in std::mem::take(&mut self.asked) {
            self.tell(reply, Ok(()));
        }
    }

    fn tell(&self, reply: Reply, done: Result<(), String>) {
        // Whoever asked may have gone.
        drop(reply.send(done.map(|()| self.supervised.status())));
    }
}

/// Ends when what is being taken is; never, where nothing is.
async fn finished(taking: &mut Option<Taking>) -> Result<(), String> {
    match taking {
        Some(taking) => (&mut taking.under_way).await,
        None => std::future::pending().await,
    }
}
